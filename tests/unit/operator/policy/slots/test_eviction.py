"""Evictions: the agents, the proof, and the pods that are read first."""

from typing import Any

import pytest

from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.slots.eviction import Evictions, evictions
from testing.builders import by_name, member, node, pod, view


def evictions_of(at: RendezvousView, *pods: Pod, job_state: JobState | None = None) -> Evictions:
    return evictions(at, by_name(*pods), job_state or JobState())


def reasons(found: Evictions) -> list[tuple[int, TombstoneReason]]:
    return [(each.member.slot, each.tombstone.reason) for each in found.evict]


@pytest.mark.parametrize(
    "fields",
    [
        {"phase": "Running"},
        {"phase": "Pending"},
        {"phase": "Running", "terminating": True},  # it may be writing a checkpoint
        {"phase": "Succeeded"},
        {"phase": "Unknown"},
    ],
)
def test_an_agent_whose_pod_has_neither_failed_nor_gone_is_not_evicted(fields: dict[str, Any]) -> None:
    assert evictions_of(view(0), pod(0, **fields)) == Evictions((), {})


def test_an_agent_whose_pod_has_failed_is_evicted_with_its_reason() -> None:
    found = evictions_of(view(0, 1), pod(0), pod(1, phase="Failed", reason="OOMKilled"))
    assert reasons(found) == [(1, TombstoneReason.POD_FAILED)]
    assert found.evict[0].tombstone.detail == "it ran out of memory (OOMKilled)"


def test_a_failed_pod_without_a_reason_is_described_by_its_exit_code() -> None:
    found = evictions_of(view(0), pod(0, phase="Failed", exit_code=3))
    assert found.evict[0].tombstone == Tombstone(TombstoneReason.POD_FAILED, "exit code 3")


def test_an_eviction_has_the_lease_of_that_session() -> None:
    at = view(0, nodes={member(0): node(0, lease=4711)})
    assert evictions_of(at, pod(0, phase="Failed")).evict[0].lease == 4711


def test_an_agent_whose_pod_was_reported_as_deleted_is_evicted() -> None:
    found = evictions_of(view(0), job_state=JobState(deleted_uids={"uid-j-0-a"}))
    assert reasons(found) == [(0, TombstoneReason.POD_DELETED)]


def test_an_agent_whose_pod_the_api_server_does_not_have_is_evicted() -> None:
    found = evictions_of(view(0), job_state=JobState(absent_pods={"j-0-a"}))
    assert reasons(found) == [(0, TombstoneReason.POD_DELETED)]


def test_an_absent_name_proves_nothing_about_an_existing_pod() -> None:
    assert evictions_of(view(0), pod(0), job_state=JobState(absent_pods={"j-0-a"})) == Evictions((), {})


def test_a_pod_missing_from_the_cache_is_read_first_and_its_agent_is_not_evicted() -> None:
    assert evictions_of(view(0)) == Evictions((), {"j-0-a": frozenset({"uid-j-0-a"})})


def test_a_failed_pod_of_the_same_name_and_another_uid_proves_nothing() -> None:
    found = evictions_of(view(0), pod(0, uid="another", phase="Failed"))
    assert found == Evictions((), {"j-0-a": frozenset({"uid-j-0-a"})})


def test_two_agents_with_the_same_pod_name_are_checked_with_one_read() -> None:
    at = view(0, nodes={member(0): node(0), member(1): node(1, pod="j-0-a", pod_uid="other")})
    assert evictions_of(at).get_pods == {"j-0-a": frozenset({"uid-j-0-a", "other"})}


def test_every_session_of_a_failed_pod_is_evicted() -> None:
    at = view(0, nodes={member(0): node(0), member(1): node(1, pod="j-0-a")})
    assert [each.member for each in evictions_of(at, pod(0, phase="Failed")).evict] == [member(0), member(1)]


@pytest.mark.parametrize(
    ("before", "overwrite"),
    [
        (TombstoneReason.REFUSED, True),
        (TombstoneReason.LEFT, False),
        (TombstoneReason.WEDGED, False),
        (TombstoneReason.POD_DELETED, False),
    ],
)
def test_a_failed_pod_overwrites_only_the_tombstone_of_a_refused_link(
    before: TombstoneReason, *, overwrite: bool
) -> None:
    at = view(0, tombstones={member(0): Tombstone(before)})
    assert evictions_of(at, pod(0, phase="Failed")).evict[0].overwrite is overwrite


def test_a_deleted_pod_does_not_overwrite_the_tombstone_of_a_refused_link() -> None:
    at = view(0, tombstones={member(0): Tombstone(TombstoneReason.REFUSED)})
    assert not evictions_of(at, job_state=JobState(deleted_uids={"uid-j-0-a"})).evict[0].overwrite
