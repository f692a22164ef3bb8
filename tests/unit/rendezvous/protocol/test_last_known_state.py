"""The rendezvous state that one node knows, through wipes and deletions."""

import pytest

from elasticjob_agent.rendezvous.protocol.last_known_state import NO_STATE, UNKNOWN, LastKnownState, is_newer
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState, RoundPhase, encode_state
from elasticjob_etcd.interface import KeyValue

MEMBERS = (Member(0, "0000000a"), Member(1, "0000000b"))


def state(round_: int, phase: RoundPhase = RoundPhase.ACTIVE, **fields: object) -> RendezvousState:
    members = MEMBERS if phase is RoundPhase.ACTIVE else ()
    return RendezvousState(phase=phase, round=round_, nonce=f"n{round_}", members=members, **fields)  # type: ignore[arg-type]


def kv(value: RendezvousState | bytes, revision: int) -> KeyValue:
    value = value if isinstance(value, bytes) else encode_state(value)
    return KeyValue("/world", value, create_revision=2, mod_revision=revision, version=1)


def observed(*states: RendezvousState) -> LastKnownState:
    last_known = LastKnownState()
    for revision, value in enumerate(states, start=2):
        assert last_known.observe(kv(value, revision))
    return last_known


@pytest.mark.parametrize(
    ("mine", "theirs", "newer"),
    [
        pytest.param(None, None, False, id="nothing and nothing"),
        pytest.param(state(1), None, True, id="any state over none"),
        pytest.param(None, state(1), False, id="none over any state"),
        pytest.param(state(2, RoundPhase.FORMING), state(1), True, id="a later round"),
        pytest.param(state(2), state(2, RoundPhase.FORMING), True, id="a later phase"),
        pytest.param(
            state(2, RoundPhase.FORMING, has_verdict=True), state(2, RoundPhase.FORMING), True, id="a verdict over none"
        ),
        pytest.param(
            state(2, RoundPhase.FORMING),
            state(2, RoundPhase.FORMING, has_verdict=True),
            False,
            id="none over a verdict",
        ),
        pytest.param(state(2), state(2), False, id="the same"),
    ],
)
def test_the_newer_state(mine: RendezvousState | None, theirs: RendezvousState | None, newer: bool) -> None:  # noqa: FBT001 -- a column
    assert is_newer(mine, theirs) is newer


def test_before_the_first_state_there_is_none_and_nothing_was_deleted() -> None:
    last_known = LastKnownState()
    assert not last_known.observe(None)
    assert (last_known.state, last_known.revision, last_known.ended) == (None, NO_STATE, False)


def test_the_same_revision_is_no_change() -> None:
    last_known = observed(state(1))
    assert not last_known.observe(kv(state(1), 2))


def test_members_of_the_last_active_round_are_remembered_while_the_next_one_forms() -> None:
    last_known = observed(state(1), state(2, RoundPhase.FORMING))
    assert last_known.membership == Membership(1, MEMBERS)


def test_a_state_that_vanishes_from_the_same_store_means_that_the_job_was_deleted() -> None:
    last_known = observed(state(1))
    assert last_known.observe(None)
    assert (last_known.state, last_known.deleted, last_known.ended) == (None, True, True)


def test_after_a_wipe_the_state_is_remembered_without_its_revision() -> None:
    last_known = observed(state(3))
    last_known.forget_revisions()
    assert not last_known.observe(None)
    assert (last_known.state, last_known.revision, last_known.deleted) == (state(3), UNKNOWN, False)


def test_after_a_wipe_only_an_equal_or_higher_state_is_followed() -> None:
    last_known = observed(state(3))
    last_known.forget_revisions()
    assert not last_known.observe(kv(state(2), 5))
    assert (last_known.state, last_known.revision) == (state(3), UNKNOWN)
    assert last_known.observe(kv(state(3), 6))
    assert (last_known.state, last_known.revision) == (state(3), 6)


def test_a_deletion_after_a_wipe_is_detected_once_the_new_store_has_had_a_state() -> None:
    last_known = observed(state(3))
    last_known.forget_revisions()
    last_known.observe(kv(state(3), 6))
    assert last_known.observe(None)
    assert last_known.deleted


def test_an_unreadable_state_is_reported_once_and_changes_nothing() -> None:
    last_known = observed(state(1))
    with pytest.raises(RecordError):
        last_known.observe(kv(b"nonsense", 9))
    assert not last_known.observe(kv(b"nonsense", 9))
    assert last_known.state == state(1)
