"""Which step is persisted next and by which members, and which persisted steps stay or may be restored."""

import itertools
from collections.abc import Mapping

import pytest

from elasticjob_agent.keep.rules.persisting import (
    RETRY_S,
    PersistAnnouncement,
    PersistOrder,
    PersistTimer,
    eligible,
    find_trouble,
    found_by_all,
    missing_step,
    newest_of_lineages,
    next_order,
    parts_to_write,
    superfluous,
    surplus,
)
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member

MEMBERS = tuple(Member(slot, f"{slot:08x}") for slot in range(3))
OLD, NOW = Lineage(2, "old"), Lineage(5, "now")
C = KeptStep(NOW, 40, 3)
HELD = {member: {C: frozenset({rank, (rank + 1) % 3})} for rank, member in enumerate(MEMBERS)}
RUN, OTHER = "run", "other"
KNOWN = PersistAnnouncement("id")


def persisted(number: int, lineage: Lineage = NOW, run: str = RUN) -> PersistedStep:
    return PersistedStep(run, KeptStep(lineage, number, 3))


def announced(*each: PersistAnnouncement) -> dict[Member, PersistAnnouncement]:
    return dict(zip(MEMBERS, each, strict=False))


def order_in(
    found: dict[Member, PersistAnnouncement],
    committed: KeptStep | None = C,
    held: Mapping[Member, Holdings] = HELD,
    *,
    number: int = 1,
) -> PersistOrder | None:
    return next_order(found, committed, MEMBERS, held, trouble=find_trouble(found, held), number=number)


def test_a_step_counts_as_found_when_each_member_has_found_it_or_a_newer_one() -> None:
    older, newer = (PersistAnnouncement("id", persisted(number)) for number in (39, 40))
    assert found_by_all(announced(newer, older, newer), MEMBERS) == older.newest
    assert found_by_all(announced(newer, newer, newer), MEMBERS) == newer.newest
    assert found_by_all(announced(newer, newer, KNOWN), MEMBERS) is None
    assert found_by_all(announced(newer, newer), MEMBERS) is None
    assert found_by_all({}, ()) is None


def test_each_part_of_the_committed_step_is_ordered_from_one_member() -> None:
    order = order_in(announced(KNOWN, KNOWN, KNOWN), number=7)
    assert order is not None
    assert (order.step, order.number) == (C, 7)
    shares = [parts_to_write(order.sources, C, MEMBERS, member, ()) for member in MEMBERS]
    assert sorted(itertools.chain(*shares)) == [0, 1, 2]


def test_one_member_writes_a_step_that_each_has() -> None:
    whole = KeptStep(NOW, 40, 1)
    held = {member: {whole: frozenset({0})} for member in MEMBERS}
    order = order_in(announced(KNOWN, KNOWN, KNOWN), whole, held)
    assert order is not None
    shares = [parts_to_write(order.sources, whole, MEMBERS, member, {0}) for member in MEMBERS]
    assert shares.count(frozenset({0})) == 1
    assert shares.count(frozenset()) == 2


def test_without_sources_each_member_writes_its_own_parts() -> None:
    assert parts_to_write("", C, MEMBERS, MEMBERS[1], {1, 2}) == {1, 2}
    assert parts_to_write("no sources", C, MEMBERS, MEMBERS[1], {1}) == {1}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(announced(KNOWN, KNOWN), id="a member has announced nothing yet"),
        pytest.param(announced(KNOWN, KNOWN, PersistAnnouncement("")), id="a member has not listed it yet"),
        pytest.param(announced(KNOWN, KNOWN, PersistAnnouncement("id", is_writing=True)), id="one still writes"),
        pytest.param(announced(KNOWN, KNOWN, PersistAnnouncement("elsewhere")), id="another file system"),
        pytest.param(announced(KNOWN, KNOWN, PersistAnnouncement("id", has_failed=True)), id="one cannot use it"),
        pytest.param(announced(KNOWN, KNOWN, PersistAnnouncement("id", persisted(40))), id="it is whole already"),
        pytest.param(announced(KNOWN, KNOWN, PersistAnnouncement("id", persisted(41))), id="a newer one is whole"),
    ],
)
def test_nothing_is_ordered_when(found: dict[Member, PersistAnnouncement]) -> None:
    assert order_in(found) is None


def test_nothing_is_ordered_before_the_first_commit() -> None:
    assert order_in(announced(KNOWN, KNOWN, KNOWN), None) is None


def test_an_older_whole_step_does_not_hinder_the_next() -> None:
    found = announced(KNOWN, KNOWN, PersistAnnouncement("id", persisted(39)))
    assert order_in(found) is not None


def test_trouble_names_two_nodes_with_different_file_systems_and_the_cure() -> None:
    found = announced(PersistAnnouncement("a"), PersistAnnouncement("a"), PersistAnnouncement("b"))
    assert find_trouble(found, found) == (
        "it is not the same file system on slot 0 and slot 2; mount one shared volume there on all nodes"
    )
    assert find_trouble(announced(KNOWN, KNOWN, PersistAnnouncement("")), MEMBERS) == ""
    failed = announced(KNOWN, PersistAnnouncement("", has_failed=True), KNOWN)
    assert "slot 1 cannot use it" in find_trouble(failed, MEMBERS)


def test_a_member_without_the_directory_is_named_when_it_has_announced_something() -> None:
    found = announced(KNOWN, KNOWN)
    assert find_trouble(found, MEMBERS[:2]) == ""
    assert find_trouble(found, MEMBERS) == (
        "slot 2 has no such directory; delete its pod, or start its agent with --keep-persist-to"
    )


def test_a_step_is_due_after_the_whole_time_and_again_soon_if_it_did_not_become_whole() -> None:
    timer = PersistTimer(600.0, now_s=100.0)
    assert timer.due_s == 700.0
    timer.note_order(700.0)
    assert timer.due_s == 700.0 + RETRY_S
    timer.note_whole(720.0)
    assert timer.due_s == 1320.0
    often = PersistTimer(10.0, now_s=0.0)
    often.note_order(10.0)
    assert often.due_s == 20.0


def test_a_training_may_restore_the_newest_step_of_its_history() -> None:
    history = History.parse("5.now.40,2.old.90")
    found = {
        persisted(41): 9,
        persisted(39): 1,
        persisted(95, OLD): 8,
        persisted(90, OLD): 2,
        persisted(999, run=OTHER): 7,
    }
    assert eligible(found, history, RUN, may_resume=False)[0] == persisted(39)
    del found[persisted(39)]
    assert eligible(found, history, RUN, may_resume=False)[0] == persisted(90, OLD)
    del found[persisted(90, OLD)]
    assert eligible(found, history, RUN, may_resume=True) == []


def test_of_each_lineage_the_newest_step_is_chosen() -> None:
    steps = [persisted(41), persisted(39), persisted(90, OLD), persisted(38), persisted(80, OLD)]
    assert newest_of_lineages(steps) == [persisted(41), persisted(90, OLD)]
    assert newest_of_lineages([]) == []


def test_a_new_training_may_begin_from_the_step_that_was_written_last() -> None:
    found = {persisted(1000, OLD, OTHER): 1, persisted(200, OLD, "later"): 2}
    assert eligible(found, History(), RUN, may_resume=True)[0] == persisted(200, OLD, "later")
    assert eligible(found, History(), RUN, may_resume=False) == []


def test_a_keeper_that_was_frozen_removes_no_step_of_a_later_round() -> None:
    history, later = History.parse("5.now.*,2.old.90"), Lineage(6, "later")
    found = {persisted(80, OLD): 1, persisted(90, later): 2, persisted(100): 3, persisted(110): 4}
    assert superfluous(found, history, RUN, keep=1) == [persisted(80, OLD), persisted(100)]
    assert surplus(found, history, RUN, keep=1) == [persisted(80, OLD), persisted(100)]


def test_the_order_of_the_steps_of_an_earlier_run_does_not_follow_from_their_times() -> None:
    """A copy of the volume has other times, and a clock may go back."""
    newest, older, oldest = persisted(300, run=OTHER), persisted(250, run=OTHER), persisted(400, OLD, OTHER)
    found = {newest: 1, older: 2, oldest: 3, persisted(900, run="first"): 0}
    assert eligible(found, History(), RUN, may_resume=True)[0] == newest
    mine = persisted(310, Lineage(1, "mine"))
    removed = superfluous({**found, mine: 4}, History.parse("1.mine.*"), RUN, keep=2)
    assert newest not in removed
    assert older in removed


def test_the_newest_steps_stay_and_steps_that_were_given_up_go() -> None:
    history = History.parse("5.now.*,2.old.90")
    given_up, earlier = persisted(95, OLD), persisted(7, Lineage(1, "x"), OTHER)
    found = {persisted(141): 1, persisted(140): 2, persisted(90, OLD): 3, given_up: 9, earlier: 8}
    assert set(superfluous(found, history, RUN, keep=2)) == {persisted(90, OLD), given_up, earlier}
    assert set(superfluous(found, history, RUN, keep=3)) == {given_up, earlier}
    assert set(superfluous(found, history, RUN, keep=4)) == {given_up}


@pytest.mark.parametrize("run", [RUN, OTHER])
def test_a_training_that_began_anew_removes_no_step_before_it_has_passed_its_number(run: str) -> None:
    history = History.parse("5.now.*")
    ahead = {persisted(number, OLD, run): number for number in (350, 400, 440)}
    assert superfluous({**ahead, persisted(360): 999}, history, RUN, keep=2) == [persisted(350, OLD, run)]
    assert superfluous({**ahead, persisted(60): 999}, history, RUN, keep=2) == [persisted(350, OLD, run)]
    assert superfluous({**ahead, persisted(60): 999}, history, RUN, keep=3) == []
    passed = {**ahead, persisted(420): 999, persisted(410): 998}
    assert superfluous(passed, history, RUN, keep=2) == [persisted(350, OLD, run), persisted(400, OLD, run)]
    passed = {**ahead, persisted(440): 999, persisted(430): 998}
    assert set(superfluous(passed, history, RUN, keep=2)) == set(ahead)


def test_a_step_that_is_in_use_stays() -> None:
    found = {persisted(41): 1, persisted(40): 2, persisted(39): 3}
    assert superfluous(found, History.parse("5.now.*"), RUN, keep=1, in_use=[persisted(39)]) == [persisted(40)]


def test_of_superfluous_steps_the_oldest_go_until_enough_are_left() -> None:
    found = {persisted(number, Lineage(number, "x")): number for number in (1, 2, 3, 4)}
    history = History.parse("5.now.*,4.x.4")
    assert len(superfluous(found, history, RUN, keep=2)) == 3
    removed = surplus(found, history, RUN, keep=2)
    assert [each.step.number for each in removed] == [1, 2]
    assert surplus(found, history, RUN, keep=4) == []
    assert surplus(found, History.parse("5.now.*"), RUN, keep=1) == []


def test_nothing_goes_while_no_step_of_the_training_is_there() -> None:
    found = {persisted(1000, OLD, OTHER): 1, persisted(900, OLD, OTHER): 2, persisted(800, OLD, OTHER): 3}
    assert superfluous(found, History.parse("5.now.*"), RUN, keep=1) == []


@pytest.mark.parametrize(
    ("numbers", "wanted", "is_missing"),
    [((), None, False), ((), 0, True), ((90,), 100, True), ((100,), 100, False), ((90, 110), 100, False)],
)
def test_a_directory_without_the_step_that_was_there_is_not_the_right_one(
    numbers: tuple[int, ...], wanted: int | None, *, is_missing: bool
) -> None:
    found = [f"0badcafe.7.0000000a.{number}.2" for number in numbers]
    why = missing_step(found, wanted, "/ckpt")
    assert bool(why) is is_missing
    if is_missing:
        assert why.startswith(f"/ckpt has no step from {wanted} on, which status.keep.persistedStep names; ")
