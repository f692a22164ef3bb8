"""Detection of hung training: only if every unfinished node reports a hang."""

from typing import Any

import pytest

from elasticjob_api.constants import ConditionType
from elasticjob_api.status import JobStatus
from elasticjob_operator.policy.status.build import next_status
from elasticjob_operator.policy.status.stalled import stalled_since
from testing.builders import NOW_S, ago, job, member, pod, report, running, seen

NS = 1_000_000_000
IDLE = int(NOW_S) * NS - 60 * NS


def since(*stalled_ns: int, round_: int = 1, deadline_s: float | None = 30.0, **keys: Any) -> str:
    slots = range(len(stalled_ns))
    reports = {member(s): report(s, stalled_since_ns=ns, round=round_) for s, ns in zip(slots, stalled_ns, strict=True)}
    at = running(*slots, reports=reports, **keys)
    return stalled_since(seen(job(replicas=len(stalled_ns), progress_deadline_s=deadline_s), at))


def test_a_job_hangs_since_its_last_node_stopped_making_progress() -> None:
    assert since(IDLE - 9 * NS, IDLE) == ago(60)


@pytest.mark.parametrize("stalled", [(0, 0), (IDLE, 0)], ids=["none", "one"])
def test_a_job_with_a_working_node_does_not_hang(stalled: tuple[int, ...]) -> None:
    assert since(*stalled) == ""


def test_a_finished_node_is_ignored() -> None:
    assert since(IDLE, 0, completions={(1, 1): member(1)}) == ago(60)


def test_a_report_of_another_round_is_ignored() -> None:
    assert since(IDLE, round_=0) == ""


def test_without_a_deadline_no_job_hangs() -> None:
    assert since(IDLE, deadline_s=None) == ""


def test_a_stalled_job_has_the_condition_and_the_reason_for_kubectl() -> None:
    at = running(0, reports={member(0): report(0, stalled_since_ns=IDLE)})
    status: JobStatus = next_status(seen(job(progress_deadline_s=30.0), at, pod(0)))
    condition = {each.type: each for each in status.conditions}[ConditionType.STALLED]
    assert (condition.status, status.reason) == ("True", "Stalled")
    assert condition.message.endswith(f"since {ago(60)} (progressDeadlineSeconds 30)")
