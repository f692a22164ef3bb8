"""The agent of a slot is the newest live session of the slot's own pod."""

from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member
from elasticjob_operator.policy.slots.slot_agents import slot_agents
from testing.builders import member, node, record, view


def test_each_slot_has_the_agent_of_its_own_pod() -> None:
    at = view(0, 1, nodes={member(0): node(0), member(1): node(1, pod="j-1-old"), member(2): node(2)})
    assert slot_agents(at) == {0: member(0)}


def test_a_session_with_a_tombstone_is_left_out() -> None:
    assert slot_agents(view(0, tombstones={member(0): Tombstone(TombstoneReason.WEDGED)})) == {}


def test_of_two_sessions_of_one_pod_the_newer_counts() -> None:
    newer = Member(0, "000000ff")
    sessions = {newer: node(0, revision=9), member(0): node(0, revision=4)}
    assert slot_agents(view(spec=record(0), nodes=sessions)) == {0: newer}
