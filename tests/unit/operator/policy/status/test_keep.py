"""`status.keep` and the condition KeepDegraded: from what the agents report of their keepers."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import ConditionType
from elasticjob_api.records import KeepReport
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.spec import Keep
from elasticjob_api.status import JobStatus, KeepStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.status.conditions import evaluate
from elasticjob_operator.policy.status.keep import degradation, keep_status, keep_status_at_end, node_keep_status
from testing.builders import (
    condition,
    job,
    member,
    membership,
    pod,
    record,
    running,
    samples,
    seen,
    state,
    template,
    view,
)

KEEP = Keep(size_limit="1Gi")
STEP = KeepReport(round=1, step=7)
BEFORE = JobStatus(keep=KeepStatus(step=7, round=1, copies=1, bytes=5))


def reported(*reports: KeepReport | None) -> RendezvousView:
    """Return a round whose nodes report this; None: an agent that reports nothing of Keep."""
    slots = range(len(reports))
    return running(*slots, samples={member(slot): samples(keep=reports[slot]) for slot in slots})


def shown(at: RendezvousView, *, keep: Keep | None = KEEP, **fields: Any) -> KeepStatus | None:
    return keep_status(seen(job(keep=keep, replicas=2, **fields), at, pod(0), pod(1)))


def why(at: RendezvousView, **spec: Any) -> tuple[str, str]:
    return degradation(seen(job(**{"keep": KEEP, "replicas": 2, **spec}), at, pod(0), pod(1), pod(2)))


def test_the_status_has_the_total_of_all_nodes() -> None:
    at = reported(KeepReport(round=3, step=120, copies=2, held_bytes=20), KeepReport(held_bytes=30, skipped=1))
    assert shown(at) == KeepStatus(step=120, round=3, copies=2, bytes=50, skipped=1)


def test_without_a_report_the_last_known_steps_are_shown() -> None:
    assert shown(reported(None, None), status=BEFORE) == BEFORE.keep
    assert shown(reported(None, None)) is None


def test_a_job_that_keeps_no_steps_has_no_status_of_them() -> None:
    assert shown(reported(KeepReport(step=1, round=1)), keep=None, status=BEFORE) is None


def test_a_suspended_job_has_lost_its_memory() -> None:
    stopped = view(spec=record(suspended=True), state=state(RoundPhase.SUSPENDED))
    assert shown(stopped, suspend=True, status=BEFORE) is None


def test_an_ended_job_shows_what_the_members_of_its_last_round_kept() -> None:
    ended = view(state=state(RoundPhase.SUCCEEDED, cause=Cause.SUCCEEDED), membership=membership(0, 1))
    job_state = JobState()
    job_state.last_seen.samples = {
        member(0): samples(keep=KeepReport(round=1, step=9, copies=1, held_bytes=3)),
        member(5): samples(keep=KeepReport(round=1, step=99)),
    }
    of = job(keep=KEEP, replicas=2, status=BEFORE)
    assert keep_status(seen(of, ended, job_state=job_state)) == KeepStatus(step=9, round=1, copies=1, bytes=3)
    assert keep_status(seen(of, ended)) == BEFORE.keep


def at_end(known: KeepStatus | None, *reports: KeepReport | None) -> KeepStatus | None:
    """Return the steps that the status of an ended job has once its members have reported this."""
    ended = view(state=state(RoundPhase.SUCCEEDED, cause=Cause.SUCCEEDED), membership=membership(*range(len(reports))))
    job_state = JobState()
    job_state.last_seen.samples = {member(slot): samples(keep=report) for slot, report in enumerate(reports)}
    of = job(keep=KEEP, replicas=2, status=JobStatus(completion_time="2026-01-01T00:00:00Z", keep=known))
    return keep_status_at_end(seen(of, ended, job_state=job_state))


def test_a_step_that_is_written_to_disk_after_the_end_is_in_the_status() -> None:
    known = KeepStatus(step=20, round=1, bytes=44, skipped=3)
    written = KeepReport(persisted_step=20, persisted_ns=1_767_225_601 * 10**9)
    expected = replace(known, persisted_step=20, persisted_time="2026-01-01T00:00:01Z")
    assert at_end(known, KeepReport(held_bytes=1), written) == expected
    assert at_end(None, written) == KeepStatus(persisted_step=20, persisted_time="2026-01-01T00:00:01Z")


def test_the_error_of_the_last_write_is_in_the_status_of_an_ended_job_until_a_step_is_whole() -> None:
    known = KeepStatus(step=20, round=1)
    failed = replace(known, persist_error="the disk is full")
    assert at_end(known, KeepReport(persist_error="the disk is full")) == failed
    assert at_end(failed, KeepReport()) == failed
    mended = at_end(failed, KeepReport(persisted_step=20, persisted_ns=1_767_225_601 * 10**9))
    assert mended is not None
    assert mended.persist_error == ""


OLDER = KeepReport(persisted_step=10, persisted_ns=5)


@pytest.mark.parametrize("reports", [(), (None,), (KeepReport(held_bytes=7),), (OLDER,)])
def test_an_ended_job_keeps_the_newest_persisted_step_that_was_seen(reports: tuple[KeepReport | None, ...]) -> None:
    known = KeepStatus(step=20, round=1, persisted_step=20, persisted_time="2026-01-01T00:00:01Z")
    assert at_end(known, *reports) == known


def test_a_node_shows_what_it_holds_itself() -> None:
    assert node_keep_status(None) is None
    assert node_keep_status(samples()) is None
    hostile = KeepReport(degraded="a\n[operator] b" + "x" * 8000, copies=3)
    found = node_keep_status(samples(keep=hostile))
    assert found is not None
    assert (found.step, found.copies, len(found.degraded)) == (None, None, 128)
    assert found.degraded.startswith("a [operator] b")


def test_the_first_node_that_is_degraded_is_named_with_the_number_of_others() -> None:
    bad = KeepReport(degraded="no answer of a peer")
    assert why(reported(KeepReport(), bad)) == ("NodesDegraded", "j-1: no answer of a peer")
    assert why(reported(bad, bad, bad)) == ("NodesDegraded", "j-0: no answer of a peer (and 2 more nodes)")
    assert why(reported(STEP, KeepReport())) == ("AllKept", "")


def test_nothing_is_known_of_kept_steps_while_no_node_reports_any() -> None:
    assert why(reported(None, None)) == ("NotReported", "")
    assert why(reported()) == ("NotReported", "")
    assert why(reported(None, STEP)) == ("AllKept", "")
    assert why(reported(None), replicas=1)[0] == "TooFewNodes"


def test_without_a_committed_step_the_condition_does_not_claim_that_all_is_kept() -> None:
    at = reported(KeepReport(held_bytes=5), KeepReport(held_bytes=5, persisted_step=3))
    assert why(at) == ("NoStepCommitted", "")
    value = evaluate(seen(job(keep=KEEP, replicas=2), at, pod(0), pod(1)))[ConditionType.KEEP_DEGRADED]
    assert (value.status, value.reason) == ("False", "NoStepCommitted")
    assert value.message.startswith("no step is committed yet: ")
    assert why(reported(KeepReport(), KeepReport(degraded="no peer"))) == ("NodesDegraded", "j-1: no peer")


@pytest.mark.parametrize(("limit", "is_small"), [("1Gi", True), ("512Mi", True), ("2Gi", False), (None, False)])
def test_a_memory_limit_that_is_not_above_the_volume_is_remarked(limit: str | None, *, is_small: bool) -> None:
    limits = {} if limit is None else {"resources": {"limits": {"memory": limit}}}
    reason, message = why(reported(KeepReport()), template=template(**limits))
    assert (reason == "KeepTooSmall") is is_small
    assert ("spec.keep.sizeLimit is 1Gi" in message) is is_small


def test_a_volume_that_a_node_has_less_memory_for_is_remarked() -> None:
    small, whole = KeepReport(size_limit_bytes=(1 << 30) - 1), KeepReport(size_limit_bytes=1 << 30)
    remark = "its node has memory for 1023 MiB, and spec.keep.sizeLimit is 1Gi; lower it, or choose larger nodes"
    assert why(reported(whole, small, small)) == ("KeepTooSmall", f"j-1: {remark} (and 1 more node)")
    assert why(reported(whole, STEP)) == ("AllKept", "")


def test_a_step_that_could_not_be_persisted_is_remarked_beside_missing_copies() -> None:
    full = KeepReport(persist_error="the disk is full")
    keep = Keep(size_limit="1Gi", persist_to="/ckpt")
    assert why(reported(KeepReport(), full), keep=keep) == ("PersistFailed", "j-1: the disk is full")
    assert why(reported(KeepReport(degraded="no peer"), full), keep=keep) == (
        "NodesDegraded",
        "j-0: no peer; j-1: the disk is full",
    )


def test_a_job_that_waits_for_its_directory_is_remarked_first() -> None:
    waiting = KeepReport(persist_error="training waits", is_waiting=True)
    small = Keep(size_limit="1Gi", persist_to="/ckpt", copies=3)
    reason, message = why(reported(KeepReport(persist_error="the disk is full"), waiting), keep=small)
    assert reason == "PersistUnreadable"
    assert message.startswith("j-1: training waits; ")
    assert message.endswith("; j-0: the disk is full")


def test_a_suspended_job_still_has_its_persisted_step() -> None:
    stopped = view(spec=record(suspended=True), state=state(RoundPhase.SUSPENDED))
    at = "2026-01-01T00:00:00Z"
    kept = KeepStatus(step=7, round=1, copies=1, bytes=5, skipped=3, persisted_step=6, persisted_time=at)
    given: dict[str, Any] = {"suspend": True, "status": JobStatus(keep=kept)}
    on_disk = Keep(size_limit="1Gi", persist_to="/ckpt")
    assert shown(stopped, keep=on_disk, **given) == KeepStatus(persisted_step=6, persisted_time=at)
    assert shown(stopped, keep=KEEP, **given) is None
    assert shown(stopped, keep=on_disk, suspend=True, status=BEFORE) is None


def suspended(known: KeepStatus | None, *reports: KeepReport) -> KeepStatus | None:
    """Return the steps that the status of a suspended job has when its members have ended after these reports."""
    stopped = view(
        spec=record(suspended=True), state=state(RoundPhase.SUSPENDED), membership=membership(*range(len(reports)))
    )
    job_state = JobState()
    job_state.last_seen.samples = {member(slot): samples(keep=report) for slot, report in enumerate(reports)}
    keep = Keep(size_limit="1Gi", persist_to="/ckpt")
    return keep_status(seen(job(keep=keep, suspend=True, status=JobStatus(keep=known)), stopped, job_state=job_state))


def test_a_suspended_job_has_what_its_agents_wrote_and_lost_at_their_end() -> None:
    at, later = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
    known = KeepStatus(step=20, round=1, bytes=9, persisted_step=10, persisted_time=at, persist_error="slow")
    written = KeepReport(step=20, round=1, persisted_step=20, persisted_ns=1_767_225_601 * 10**9)
    assert suspended(known, KeepReport(), written) == KeepStatus(persisted_step=20, persisted_time=later)
    lost = "step 20 was not written to keep.persistTo"
    kept = KeepReport(persisted_step=10, persisted_ns=1_767_225_600 * 10**9, persist_error=lost)
    expected = KeepStatus(persisted_step=10, persisted_time=at, persist_error=lost)
    assert suspended(known, kept, KeepReport()) == expected
    assert suspended(expected) == expected
    assert suspended(None, KeepReport(persist_error=lost)) == KeepStatus(persist_error=lost)
    assert suspended(None) is None


def test_until_an_agent_finds_a_persisted_step_the_last_known_one_is_shown() -> None:
    known = JobStatus(keep=KeepStatus(persisted_step=6, persisted_time="2026-01-01T00:00:00Z"))
    on_disk = Keep(size_limit="1Gi", persist_to="/ckpt")
    for report, step in ((KeepReport(), 6), (KeepReport(persisted_step=2), 2)):
        found = shown(reported(report), keep=on_disk, status=known)
        assert found is not None
        assert found.persisted_step == step
    assert shown(reported(KeepReport()), status=known) == KeepStatus()


@pytest.mark.parametrize(("copies", "most", "is_remarked"), [(1, 2, False), (2, 2, True), (3, 4, False), (3, 3, True)])
def test_more_copies_than_other_nodes_are_remarked(copies: int, most: int, *, is_remarked: bool) -> None:
    reason, message = why(reported(KeepReport()), max_replicas=most, keep=Keep(size_limit="1Gi", copies=copies))
    assert (reason == "TooFewNodes") is is_remarked
    cure = f"has {most - 1} other; set it to {most - 1}, or raise spec.maxReplicas"
    assert (cure in message) is is_remarked


def test_copies_without_another_node_are_remarked() -> None:
    reason, message = why(reported(KeepReport()), replicas=1)
    assert (reason, message) == (
        "TooFewNodes",
        "spec.keep.copies is 1, and a job of at most 1 node has no other; set it to 0, or raise spec.maxReplicas",
    )
    assert why(reported(STEP), replicas=1, keep=Keep(size_limit="1Gi", copies=0)) == ("AllKept", "")
    assert why(reported(STEP), replicas=1, max_replicas=2) == ("AllKept", "")


def test_only_a_job_that_has_used_keep_has_its_condition() -> None:
    at = reported(KeepReport(degraded="why"))
    assert ConditionType.KEEP_DEGRADED not in evaluate(seen(job(), at, pod(0)))
    assert evaluate(seen(job(keep=KEEP, max_replicas=2), at, pod(0)))[ConditionType.KEEP_DEGRADED].is_true
    used = job(status=JobStatus(conditions=(condition("KeepDegraded"),)))
    value = evaluate(seen(used, at, pod(0)))[ConditionType.KEEP_DEGRADED]
    assert (value.status, value.reason) == ("False", "Off")


def test_a_suspended_job_is_not_degraded() -> None:
    assert why(reported(KeepReport(degraded="why")), suspend=True) == ("NotRunning", "")
