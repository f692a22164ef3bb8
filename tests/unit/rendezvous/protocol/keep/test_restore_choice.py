"""A round restores the newest step that is whole, and never parts of two steps."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.keep.restore_choice import RestoreDecision, choose_restore
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, HistoryEntry, Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member

OLD, NEW = Lineage(1, "a"), Lineage(2, "b")
LINE = History((HistoryEntry(NEW, None), HistoryEntry(OLD, 2)))
STEPS = [KeptStep(OLD, 1, 2), KeptStep(OLD, 2, 2), KeptStep(NEW, 2, 2)]
"""Oldest first. The middle one and the last one have the same number."""
DEAD = [KeptStep(OLD, 3, 2), KeptStep(Lineage(2, "c"), 9, 2)]
MEMBERS = [Member(slot, f"0000000{slot}") for slot in range(4)]
PART_SETS = [frozenset[int](), frozenset({0}), frozenset({1}), frozenset({0, 1})]


def choose(
    holdings: Sequence[Holdings],
    *,
    history: History = LINE,
    persisted: Iterable[PersistedStep | None] = (),
    hosts: Sequence[str] = "abcd",
    copies: int = 1,
) -> RestoreDecision:
    records = {
        member: HoldingsRecord(port=1, steps=held, persisted=found)
        for member, held, found in itertools.zip_longest(MEMBERS[: len(holdings)], holdings, persisted)
    }
    return choose_restore(history, records, dict(zip(records, hosts, strict=False)), copies=copies)


def all_holdings(steps: Sequence[KeptStep]) -> Iterator[Holdings]:
    """Yield each way in which one node can hold these steps of two parts."""
    for sets in itertools.product(PART_SETS, repeat=len(steps)):
        yield {step: parts for step, parts in zip(steps, sets, strict=True) if parts}


def newest_whole(holdings: Sequence[Holdings]) -> KeptStep | None:
    """Return the right answer in the plainest way."""
    for step in reversed(STEPS):
        if all(any(part in held.get(step, ()) for held in holdings) for part in range(step.parts)):
            return step
    return None


def test_two_nodes_restore_the_newest_whole_step_whatever_they_hold() -> None:
    for pair in itertools.product(all_holdings(STEPS), repeat=2):
        assert choose(pair).step == newest_whole(pair)


def test_a_dead_step_changes_nothing() -> None:
    for pair in itertools.product(all_holdings([STEPS[0], *DEAD]), repeat=2):
        assert choose(pair).step == newest_whole(pair)


@given(st.lists(st.sampled_from(list(all_holdings(STEPS))), max_size=4))
def test_four_nodes_restore_the_newest_whole_step(holdings: list[Holdings]) -> None:
    found = choose(holdings)
    assert found.step == newest_whole(holdings)
    if found.step is None:
        assert found.history == History()
    else:
        assert found.history.entries[0] == HistoryEntry(found.step.lineage, found.step.number)


def test_parts_of_one_number_in_two_lineages_are_no_step() -> None:
    found = choose([{STEPS[1]: frozenset({0})}, {STEPS[2]: frozenset({1})}])
    assert found == RestoreDecision()


def test_parts_of_one_number_with_two_counts_are_no_step() -> None:
    assert choose([{KeptStep(NEW, 1, 2): frozenset({0})}, {KeptStep(NEW, 1, 3): frozenset({1, 2})}]).step is None


def test_two_active_states_of_one_round_are_two_lineages() -> None:
    # Etcd lost the first of them, and a node that had seen it came back later.
    lost, kept = KeptStep(Lineage(2, "z"), 9, 1), KeptStep(NEW, 1, 1)
    assert choose([{lost: frozenset({0})}, {kept: frozenset({0})}]).step == kept


# -- the shared directory ------------------------------------------------------------------------


def persisted(step: KeptStep, run: str = "run") -> PersistedStep:
    return PersistedStep(run, step)


WHOLE = frozenset({0, 1})


def test_the_shared_directory_is_read_only_for_a_newer_step() -> None:
    older, same, newer = ([persisted(step)] for step in STEPS)
    held = [{STEPS[1]: WHOLE}]
    assert choose(held, persisted=older) == choose(held, persisted=same)
    assert (choose(held, persisted=older).step, choose(held, persisted=older).run) == (STEPS[1], "")
    assert (choose(held, persisted=newer).step, choose(held, persisted=newer).run) == (STEPS[2], "run")


def test_the_shared_directory_is_read_if_no_step_in_memory_is_whole() -> None:
    found = choose([{STEPS[2]: frozenset({0})}, {}], persisted=[None, persisted(STEPS[0])])
    assert (found.step, found.run, str(found.history)) == (STEPS[0], "run", "1.a.1")


def test_a_dead_step_of_the_shared_directory_is_not_restored() -> None:
    assert choose([{}], persisted=[persisted(DEAD[0])]) == RestoreDecision()


BEHIND = History((HistoryEntry(Lineage(0, "z"), 9),))


def choose_older(*older: PersistedStep, persisted: PersistedStep | None, history: History = LINE) -> RestoreDecision:
    record = HoldingsRecord(port=1, persisted=persisted, older=older)
    return choose_restore(history, {MEMBERS[0]: record}, {MEMBERS[0]: "a"}, copies=1, older=BEHIND)


def test_an_older_step_on_disk_is_restored_when_nothing_newer_is_left() -> None:
    last = persisted(KeptStep(Lineage(0, "z"), 9, 2))
    found = choose_older(persisted=last)
    assert (found.step, found.run, str(found.history)) == (last.step, "run", "0.z.9")


def test_the_newest_step_that_any_node_has_found_on_disk_is_restored() -> None:
    found = choose_older(persisted(STEPS[1]), persisted=persisted(STEPS[0]))
    assert found.step == STEPS[1]


def test_the_older_steps_on_disk_stay_behind_the_restored_one() -> None:
    last = persisted(KeptStep(Lineage(0, "z"), 9, 2))
    found = choose_older(last, persisted=persisted(STEPS[2]))
    assert (found.step, str(found.older)) == (STEPS[2], "0.z.9")
    assert choose_older(persisted=persisted(STEPS[2])).older == History()


def test_a_step_in_memory_of_a_lineage_that_counts_on_disk_only_is_not_restored() -> None:
    record = HoldingsRecord(port=1, steps={KeptStep(Lineage(0, "z"), 9, 1): frozenset({0})})
    found = choose_restore(LINE, {MEMBERS[0]: record}, {MEMBERS[0]: "a"}, copies=1, older=BEHIND)
    assert found == RestoreDecision()


def test_a_newer_step_on_disk_is_restored_before_an_older_one_in_memory() -> None:
    """A node without a place holds the step of an earlier round; the rounds since have persisted theirs."""
    history, older = LONG, History()
    for restored in (whole(6), whole(4)):
        spare = HoldingsRecord(port=1, steps=held(3))
        others = HoldingsRecord(port=1, persisted=persisted(restored), older=(persisted(whole(4)),))
        records = dict(zip(MEMBERS, (spare, others), strict=False))
        found = choose_restore(history, records, dict.fromkeys(records, "a"), copies=1, older=older)
        assert found.step == restored
        history, older = found.history.with_lineage(Lineage(7, "n")), found.older


def test_a_new_run_restores_the_newest_persisted_step_of_others() -> None:
    first, second = KeptStep(Lineage(90, "p"), 500, 4), KeptStep(Lineage(3, "q"), 900, 4)
    records = [persisted(first, "one"), persisted(second, "two")]
    for given_order in (records, records[::-1]):
        found = choose([{}, {}], history=History(), persisted=given_order)
        assert (found.step, found.run, str(found.history)) == (second, "two", "3.q.900")


def test_a_new_run_restores_no_step_that_one_of_the_nodes_knows_to_be_older() -> None:
    """The other one has an old list, of which the last step has a higher number."""
    first = persisted(KeptStep(Lineage(90, "p"), 500, 4), "one")
    second = persisted(KeptStep(Lineage(3, "q"), 90, 4), "two")
    earlier = persisted(replace(first.step, number=400), "one")
    late = HoldingsRecord(port=1, persisted=earlier)
    for known in (first, earlier):
        records = dict(zip(MEMBERS, (late, HoldingsRecord(port=1, persisted=second, older=(known,))), strict=False))
        found = choose_restore(History(), records, dict.fromkeys(records, "a"), copies=1)
        assert (found.step, found.run) == (second.step, "two")


def test_a_run_that_wrote_or_restored_a_step_never_returns_to_another_run() -> None:
    assert choose([{}], persisted=[persisted(KeptStep(Lineage(90, "p"), 500, 4), "other")]).step is None


def test_a_restored_step_of_another_run_is_older_than_the_steps_after_it() -> None:
    # Its round has a higher number than the rounds of this run.
    other = Lineage(90, "p")
    history = History((HistoryEntry(NEW, None), HistoryEntry(other, 500)))
    found = choose([{STEPS[2]: WHOLE}], history=history, persisted=[persisted(KeptStep(other, 500, 4), "other")])
    assert (found.step, str(found.history)) == (STEPS[2], "2.b.2,90.p.500")


# -- what stays behind the restored step ---------------------------------------------------------

LONG = History(tuple(HistoryEntry(Lineage(round_, "n"), None) for round_ in range(6, 0, -1)))


def whole(round_: int) -> KeptStep:
    return KeptStep(Lineage(round_, "n"), round_, 1)


def held(*rounds: int) -> Holdings:
    return {whole(round_): frozenset({0}) for round_ in rounds}


@pytest.mark.parametrize(
    ("holdings", "rounds"),
    [
        ([held(6, 5, 4, 3), held(4, 3)], [6, 5, 4]),
        ([held(6, 5, 4, 3), held()], [6, 5, 4, 3]),
        ([held(6, 5, 4, 3)], [6, 5]),
        ([held(6, 1), held(6, 1)], [6, 1]),
    ],
    ids=["down to a safe step", "all if none is safe", "one node: each step is safe", "lineages that no node holds go"],
)
def test_a_fallback_stays_until_it_is_older_than_a_safe_one(holdings: list[Holdings], rounds: list[int]) -> None:
    found = choose(holdings, history=LONG)
    assert [entry.lineage.round for entry in found.history.entries] == rounds


def test_members_of_one_host_count_as_one_if_there_are_others() -> None:
    three = [held(6, 5, 4), held(5, 4), held(4)]
    assert [e.lineage.round for e in choose(three, history=LONG, hosts="abc").history.entries] == [6, 5]
    assert [e.lineage.round for e in choose(three, history=LONG, hosts="aab").history.entries] == [6, 5, 4]
    assert [e.lineage.round for e in choose(three, history=LONG, hosts="aaa").history.entries] == [6, 5]


def test_the_lineage_of_a_persisted_step_stays() -> None:
    found = choose([held(6, 5), held(6, 5)], history=LONG, persisted=[persisted(whole(2))])
    assert [entry.lineage.round for entry in found.history.entries] == [6, 5, 2]


@given(st.lists(st.frozensets(st.integers(1, 6)).map(lambda rounds: held(*rounds)), min_size=1, max_size=4))
def test_the_restored_step_and_a_safe_older_one_stay_alive(holdings: list[Holdings]) -> None:
    found = choose(holdings, history=LONG)
    older = [step for step in map(whole, range(1, 7)) if found.step is not None and step < found.step]
    safe = [step for step in older if sum(step in each for each in holdings) >= min(2, len(holdings))]
    assert found.step is None or found.history.is_alive(found.step)
    assert not safe or found.history.is_alive(max(safe))


def test_ten_rounds_without_a_commit_leave_two_steps_alive() -> None:
    """Each round restores what the last one wrote, fails before a commit, and all nodes hold all of it."""
    history, kept = History(), dict[KeptStep, frozenset[int]]()
    for round_ in range(1, 11):
        kept[whole(round_)] = frozenset({0})
        found = choose([kept, kept], history=history.with_lineage(whole(round_).lineage))
        history = found.history
        kept = {step: parts for step, parts in kept.items() if history.is_alive(step)}
        assert len(kept) <= 2
