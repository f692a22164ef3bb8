"""The pod of a rank, and the rank of a line."""

import pytest

from elasticjob.errors import NoLogs
from elasticjob.rank_placement import Ranks, pod_of, rank_of_line, ranks_at_failure, ranks_by_pod
from elasticjob_api.constants import Phase
from elasticjob_api.status import JobStatus, LastFailure, NodeStatus


def node(pod: str, rank: int | None, ranks: str) -> NodeStatus:
    return NodeStatus(name=pod, pod_name=pod, rank=rank, ranks=ranks)


MIXED = JobStatus(nodes=(node("a", 2, "RR"), node("b", 0, "R"), node("c", None, "PP"), node("d", 1, "RRR")))


def test_ranks_are_counted_in_the_order_of_the_nodes_ranks() -> None:
    assert ranks_by_pod(MIXED) == {"b": Ranks(0, 1), "d": Ranks(1, 3), "a": Ranks(4, 2), "c": None}


@pytest.mark.parametrize(("rank", "pod"), [(0, "b"), (1, "d"), (3, "d"), (4, "a"), (5, "a")])
def test_every_rank_is_found_in_its_pod(rank: int, pod: str) -> None:
    assert pod_of(MIXED, "digits", rank) == pod


def test_a_missing_rank_is_reported_with_the_existing_ones() -> None:
    with pytest.raises(NoLogs, match="no log of rank 6 of the job digits: it has ranks 0 to 5"):
        pod_of(MIXED, "digits", 6)


def test_before_the_first_round_no_rank_has_a_log() -> None:
    with pytest.raises(NoLogs, match="it is Pending and no worker has a rank"):
        pod_of(JobStatus(nodes=(node("a", None, "P"),)), "digits", 0)


def test_ranks_after_a_cut_node_are_not_counted() -> None:
    cut = JobStatus(phase=Phase.RUNNING, nodes=(node("a", 0, "RR"), node("c", 2, "RR")), nodes_truncated=True)
    assert ranks_by_pod(cut) == {"a": Ranks(0, 2)}
    with pytest.raises(NoLogs, match="its status has no room for more"):
        pod_of(cut, "digits", 2)


@pytest.mark.parametrize(
    ("text", "ranks", "expected"),
    [
        pytest.param("[rank12] loss 0.1", Ranks(12, 2), (12, "loss 0.1"), id="several-workers"),
        pytest.param("[rank12] ", Ranks(12, 2), (12, ""), id="empty-line"),
        pytest.param("round 3 begins", Ranks(12, 2), (None, "round 3 begins"), id="the-agent"),
        pytest.param("loss 0.1", Ranks(7, 1), (7, "loss 0.1"), id="the-only-worker"),
        pytest.param("loss 0.1", None, (None, "loss 0.1"), id="no-rank-now"),
    ],
)
def test_a_line_belongs_to_the_rank_of_its_prefix(
    text: str, ranks: Ranks | None, expected: tuple[int | None, str]
) -> None:
    assert rank_of_line(text, ranks) == expected


@pytest.mark.parametrize(("pod", "ranks"), [("d", Ranks(4, 3)), ("gone", Ranks(4, 2))])
def test_the_ranks_at_a_failure_are_those_of_its_round(pod: str, ranks: Ranks) -> None:
    failure = LastFailure(time="", round=1, pod_name=pod, rank=5, local_rank=1, exit_code=1)
    assert ranks_at_failure(MIXED, failure) == ranks
