"""The steps that some nodes keep in memory: the newest committed one, sums, and the first reason."""

import math
from dataclasses import replace

import pytest

from elasticjob_api.records import KeepReport
from elasticjob_api.status import KeepStatus, NodeKeepStatus
from elasticjob_operator.policy.status.keep_total import first_reason, keep_total, node_total


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
    report = KeepReport(degraded="a\n[operator] b" + "x" * 8000 + "; raise sizeLimit")
    for found, most in ((keep_total([report]).degraded, 400), (node_total(report).degraded, 128)):
        assert (found[:14], found[-17:], len(found)) == ("a [operator] b", "; raise sizeLimit", most)


def test_the_time_of_a_commit_is_the_first_that_a_node_knows_and_its_copies_take_as_long_as_the_slowest() -> None:
    reports = (
        KeepReport(round=1, step=9, committed_ns=1_767_225_600 * 10**9, copy_s=9.0),
        KeepReport(round=2, step=5, committed_ns=1_767_225_602 * 10**9, copy_s=0.1),
        KeepReport(round=2, step=5, committed_ns=1_767_225_601 * 10**9, copy_s=0.25),
        KeepReport(round=2, step=5),
    )
    total = keep_total(reports)
    assert (total.committed_time, total.copy_milliseconds) == ("2026-01-01T00:00:01Z", 250)


def test_an_earlier_agent_reports_no_times() -> None:
    total = keep_total([KeepReport(round=2, step=5)])
    assert (total.committed_time, total.copy_milliseconds) == ("", None)
    total = keep_total([KeepReport(committed_ns=10**18, copy_s=1.0)])
    assert (total.committed_time, total.copy_milliseconds) == ("", None)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 1e9])
def test_an_implausible_time_of_a_copy_is_left_out(wrong: float) -> None:
    assert keep_total([KeepReport(round=1, step=5, copy_s=wrong)]).copy_milliseconds is None


def test_the_persisted_step_is_the_one_that_became_whole_last() -> None:
    newer = 1_767_225_600 * 10**9
    reports = (
        KeepReport(persisted_step=120, persisted_ns=newer - 10**9),
        KeepReport(persisted_step=60, persisted_ns=newer),  # of a later round
        KeepReport(persisted_ns=newer + 1),
    )
    total = keep_total(reports)
    assert (total.persisted_step, total.persisted_time) == (60, "2026-01-01T00:00:00Z")
    without_times = keep_total([KeepReport(persisted_step=0), KeepReport(persisted_step=7), KeepReport()])
    assert (without_times.persisted_step, without_times.persisted_time) == (7, "")


def test_the_first_reason_why_a_step_was_not_persisted_is_one_short_line() -> None:
    reports = (KeepReport(), KeepReport(persist_error="a\nb" + "x" * 8000), KeepReport(persist_error="c"))
    found = keep_total(reports).persist_error
    assert (found[:3], len(found)) == ("a b", 400)


def test_the_remark_of_a_node_is_about_its_memory_first_and_then_about_the_disk() -> None:
    full = KeepReport(held_bytes=3, persist_error="the disk is full")
    assert node_total(full) == NodeKeepStatus(bytes=3, degraded="the disk is full")
    assert node_total(replace(full, degraded="no peer")).degraded == "no peer"


def test_the_first_node_with_a_reason_is_named_with_the_number_of_others() -> None:
    why = "no answer of a peer"
    assert first_reason([("j-0", ""), ("j-1", why)]) == "j-1: no answer of a peer"
    assert first_reason([("j-0", why), ("j-1", why)]) == "j-0: no answer of a peer (and 1 more node)"
    assert first_reason([("j-0", why), ("j-1", why), ("j-2", why)]).endswith("(and 2 more nodes)")
    assert first_reason([("j-0", "")]) == ""
