"""The steps that some nodes keep in memory: the newest committed one, sums, and the first reason."""

from elasticjob_api.records import KeepReport
from elasticjob_api.status import KeepStatus
from elasticjob_operator.policy.status.keep_total import first_degradation, keep_total

BAD = KeepReport(degraded="no answer of a peer")


def test_the_newest_committed_step_that_a_node_knows_is_shown_with_its_fewest_copies() -> None:
    reports = (
        KeepReport(round=3, step=110, copies=0, held_bytes=10, skipped=1),
        KeepReport(round=3, step=120, copies=2, held_bytes=20, skipped=2),
        KeepReport(round=3, step=120, copies=1, held_bytes=30),
        KeepReport(round=3, step=120, held_bytes=1),
    )
    assert keep_total(reports) == KeepStatus(step=120, round=3, copies=1, bytes=61, skipped=3)


def test_a_step_of_a_later_round_is_newer_though_its_number_is_lower() -> None:
    reports = (KeepReport(round=2, step=120, copies=1), KeepReport(round=3, step=100, copies=0))
    assert keep_total(reports) == KeepStatus(step=100, round=3, copies=0)


def test_step_0_is_a_step() -> None:
    assert keep_total((KeepReport(), KeepReport(round=1, step=0))) == KeepStatus(step=0, round=1)


def test_before_the_first_commit_there_is_no_step_but_what_is_held() -> None:
    assert keep_total((KeepReport(held_bytes=4), KeepReport(round=7, copies=1))) == KeepStatus(bytes=4)


def test_a_huge_sum_fits_into_the_field() -> None:
    assert keep_total([KeepReport(held_bytes=2**63 - 1)] * 2) == KeepStatus(bytes=2**63 - 1)


def test_a_reason_of_a_hostile_agent_is_one_short_line() -> None:
    found = keep_total([KeepReport(degraded="a\n[operator] b" + "x" * 8000)]).degraded
    assert (found[:14], len(found)) == ("a [operator] b", 128)


def test_the_first_node_that_is_degraded_is_named_with_the_number_of_others() -> None:
    assert first_degradation([("j-0", KeepReport()), ("j-1", BAD)]) == "j-1: no answer of a peer"
    assert first_degradation([("j-0", BAD), ("j-1", BAD)]) == "j-0: no answer of a peer (and 1 more node)"
    assert first_degradation([("j-0", BAD), ("j-1", BAD), ("j-2", BAD)]).endswith("(and 2 more nodes)")
    assert first_degradation([("j-0", KeepReport())]) == ""
