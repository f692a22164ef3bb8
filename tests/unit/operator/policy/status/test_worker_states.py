"""One letter per worker, and the number of workers in each state."""

import pytest

from elasticjob_api.records import WorkerReport, WorkerState
from elasticjob_api.status import NodeStatus, WorkerStates
from elasticjob_operator.policy.status.worker_states import count_states, final_states, states_of
from testing.builders import report


@pytest.mark.parametrize(
    ("state", "letter"),
    [
        (WorkerState.INIT, "S"),  # it has a pid
        (WorkerState.HEALTHY, "R"),
        (WorkerState.SUCCEEDED, "C"),
        (WorkerState.FAILED, "F"),
        (WorkerState.UNHEALTHY, "F"),
        (WorkerState.STOPPED, "T"),
        (WorkerState.UNKNOWN, "U"),
    ],
)
def test_every_state_has_its_letter(state: WorkerState, letter: str) -> None:
    assert states_of(report(0, state)) == letter


def test_a_worker_that_has_no_process_yet_is_pending() -> None:
    waiting = report(0).__class__(
        pod="p", pod_uid="u", round=1, group_rank=0, workers=(WorkerReport(rank=0, state=WorkerState.INIT),)
    )  # fmt: skip
    assert states_of(waiting) == "P"


def test_letters_are_in_the_order_of_local_ranks() -> None:
    assert states_of(report(0, WorkerState.HEALTHY, WorkerState.FAILED, WorkerState.SUCCEEDED)) == "RFC"


def test_after_success_all_have_completed() -> None:
    assert final_states("RCU", succeeded=True) == "CCC"


def test_after_failure_only_failed_and_completed_workers_keep_their_letter() -> None:
    assert final_states("PSRCFTU", succeeded=False) == "TTTCFTT"


def test_workers_are_counted_over_all_nodes_and_none_is_left_out() -> None:
    nodes = [NodeStatus(name="a", pod_name="p", ranks="PSRC"), NodeStatus(name="b", pod_name="q", ranks="RFTU")]
    assert count_states(nodes) == WorkerStates(
        pending=1, starting=1, running=2, succeeded=1, failed=1, stopped=1, unknown=1
    )  # fmt: skip


def test_no_nodes_have_no_workers() -> None:
    assert count_states([]) == WorkerStates()
