"""The world as one node knows it, through wipes and deletions."""

import pytest

from elasticjob_agent.rendezvous.protocol.last_known_state import NO_WORLD, UNKNOWN, Recall, outranks
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member, Membership, State, World, encode_world
from elasticjob_etcd.interface import KeyValue

MEMBERS = (Member(0, "0000000a"), Member(1, "0000000b"))


def world(round_: int, state: State = State.ACTIVE, **fields: object) -> World:
    members = MEMBERS if state is State.ACTIVE else ()
    return World(state=state, round=round_, nonce=f"n{round_}", members=members, **fields)  # type: ignore[arg-type]


def kv(what: World | bytes, revision: int) -> KeyValue:
    value = what if isinstance(what, bytes) else encode_world(what)
    return KeyValue("/world", value, create_revision=2, mod_revision=revision, version=1)


def seen(*worlds: World) -> Recall:
    recall = Recall()
    for revision, what in enumerate(worlds, start=2):
        assert recall.look(kv(what, revision))
    return recall


@pytest.mark.parametrize(
    ("mine", "theirs", "higher"),
    [
        pytest.param(None, None, False, id="nothing and nothing"),
        pytest.param(world(1), None, True, id="any over none"),
        pytest.param(None, world(1), False, id="none over any"),
        pytest.param(world(2, State.FORMING), world(1), True, id="a later round"),
        pytest.param(world(2), world(2, State.FORMING), True, id="a later state"),
        pytest.param(world(2, State.FORMING, judged=True), world(2, State.FORMING), True, id="a verdict over none"),
        pytest.param(world(2, State.FORMING), world(2, State.FORMING, judged=True), False, id="none over a verdict"),
        pytest.param(world(2), world(2), False, id="the same"),
    ],
)
def test_outranks(mine: World | None, theirs: World | None, higher: bool) -> None:  # noqa: FBT001 -- a column
    assert outranks(mine, theirs) is higher


def test_before_the_first_world_there_is_none_and_nothing_was_deleted() -> None:
    recall = Recall()
    assert not recall.look(None)
    assert (recall.world, recall.revision, recall.ended) == (None, NO_WORLD, False)


def test_the_same_revision_is_no_news() -> None:
    recall = seen(world(1))
    assert not recall.look(kv(world(1), 2))


def test_members_of_the_last_active_round_are_remembered_while_the_next_one_forms() -> None:
    recall = seen(world(1), world(2, State.FORMING))
    assert recall.membership == Membership(1, MEMBERS)


def test_a_world_that_is_gone_in_the_same_store_means_that_the_job_was_deleted() -> None:
    recall = seen(world(1))
    assert recall.look(None)
    assert (recall.world, recall.deleted, recall.ended) == (None, True, True)


def test_after_a_wipe_what_was_seen_is_remembered_and_no_revision_is() -> None:
    recall = seen(world(3))
    recall.wiped()
    assert not recall.look(None)
    assert (recall.world, recall.revision, recall.deleted) == (world(3), UNKNOWN, False)


def test_after_a_wipe_a_lower_world_is_not_followed_and_an_equal_or_higher_one_is() -> None:
    recall = seen(world(3))
    recall.wiped()
    assert not recall.look(kv(world(2), 5))
    assert (recall.world, recall.revision) == (world(3), UNKNOWN)
    assert recall.look(kv(world(3), 6))
    assert (recall.world, recall.revision) == (world(3), 6)


def test_a_deletion_after_a_wipe_is_known_once_the_new_store_has_had_a_world() -> None:
    recall = seen(world(3))
    recall.wiped()
    recall.look(kv(world(3), 6))
    assert recall.look(None)
    assert recall.deleted


def test_an_unreadable_world_is_told_once_and_changes_nothing() -> None:
    recall = seen(world(1))
    with pytest.raises(RecordError):
        recall.look(kv(b"nonsense", 9))
    assert not recall.look(kv(b"nonsense", 9))
    assert recall.world == world(1)
