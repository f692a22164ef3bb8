"""The history of the training only loses steps, and a round begins with the line of what it restored."""

from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.keep.history import HISTORY_ENTRIES, close_history, close_older, strike_step
from elasticjob_api.kept_steps import History, HistoryEntry, KeptStep, Lineage, PersistedStep

FIRST, SECOND, THIRD = Lineage(1, "a"), Lineage(2, "b"), Lineage(3, "c")
LINE = History((HistoryEntry(THIRD, None), HistoryEntry(SECOND, 20), HistoryEntry(FIRST, 10)))
ALL = frozenset({FIRST, SECOND, THIRD})

lineages = st.builds(Lineage, st.integers(1, 12), st.sampled_from("ab"))
steps = st.builds(KeptStep, lineages, st.integers(0, 4), st.integers(1, 2))
histories = st.lists(
    st.builds(HistoryEntry, lineages, st.none() | st.integers(0, 4)), max_size=12, unique_by=lambda entry: entry.lineage
).map(lambda entries: History(tuple(sorted(entries, key=lambda entry: entry.lineage, reverse=True))))


def step(lineage: Lineage, number: int) -> KeptStep:
    return KeptStep(lineage, number, 2)


def test_a_round_that_restores_a_step_descends_from_it_and_from_what_is_behind_it() -> None:
    assert str(close_history(LINE, step(SECOND, 15), ALL)) == "2.b.15,1.a.10"
    assert str(close_history(LINE, step(THIRD, 30), ALL)) == "3.c.30,2.b.20,1.a.10"


def test_a_lineage_that_is_not_needed_leaves_the_history() -> None:
    assert str(close_history(LINE, step(THIRD, 30), {FIRST})) == "3.c.30,1.a.10"


def test_a_lineage_on_disk_stays_in_front_of_a_needed_one() -> None:
    """Else it would count as older than that."""
    on_disk = {SECOND, Lineage(4, "d")}
    assert str(close_history(LINE, step(THIRD, 30), {FIRST}, on_disk)) == "3.c.30,2.b.20,1.a.10"
    assert str(close_history(LINE, step(THIRD, 30), {SECOND}, {FIRST})) == "3.c.30,2.b.20"
    assert str(close_history(LINE, step(THIRD, 30), (), on_disk)) == "3.c.30"


def test_a_round_that_restores_nothing_descends_from_nothing() -> None:
    assert close_history(LINE, None, ALL) == History()


def test_a_step_of_another_run_begins_the_history() -> None:
    assert str(close_history(History(), step(SECOND, 15), ())) == "2.b.15"


def on_disk(*steps: KeptStep) -> list[PersistedStep]:
    return [PersistedStep("run", each) for each in steps]


def test_lineages_with_a_persisted_step_stay_behind_the_restored_one() -> None:
    closed = close_history(LINE, step(THIRD, 30), ())
    found = on_disk(step(THIRD, 30), step(FIRST, 7))
    assert str(close_older(LINE, step(THIRD, 30), closed, found)) == "1.a.10"


def test_a_lineage_that_counts_in_memory_is_no_older_one() -> None:
    closed = close_history(LINE, step(THIRD, 30), {FIRST})
    assert close_older(LINE, step(THIRD, 30), closed, on_disk(step(FIRST, 7))) == History()


def test_a_persisted_step_of_another_branch_is_no_older_one() -> None:
    closed = close_history(LINE, step(THIRD, 30), ())
    assert close_older(LINE, step(THIRD, 30), closed, on_disk(step(SECOND, 21), step(Lineage(2, "x"), 1))) == History()


def test_a_new_run_descends_from_the_persisted_steps_before_the_one_that_it_restores() -> None:
    closed = close_history(History(), step(THIRD, 30), ())
    found = on_disk(step(THIRD, 30), step(THIRD, 20), step(SECOND, 20), step(SECOND, 10), step(FIRST, 10))
    assert str(close_older(History(), step(THIRD, 30), closed, found)) == "2.b.20,1.a.10"


def test_a_new_run_does_not_descend_from_steps_with_a_higher_number_than_the_one_that_it_restores() -> None:
    """The run that wrote this one has begun anew below them."""
    closed = close_history(History(), step(THIRD, 30), ())
    found = on_disk(step(THIRD, 30), step(SECOND, 40), step(FIRST, 10))
    assert str(close_older(History(), step(THIRD, 30), closed, found)) == "2.b.30,1.a.10"


def test_a_training_that_begins_anew_has_no_older_steps() -> None:
    assert close_older(LINE, None, History(), on_disk(step(FIRST, 7))) == History()


def test_a_struck_step_and_the_later_ones_of_its_lineage_are_dead() -> None:
    assert str(strike_step(LINE, step(SECOND, 20))) == "3.c.*,2.b.19,1.a.10"
    assert str(strike_step(LINE, step(SECOND, 3))) == "3.c.*,2.b.2,1.a.10"


def test_a_lineage_whose_first_step_is_struck_leaves_the_history() -> None:
    assert str(strike_step(LINE, step(SECOND, 0))) == "3.c.*,1.a.10"


def test_a_step_that_is_dead_already_is_struck_without_effect() -> None:
    assert strike_step(LINE, step(SECOND, 21)) == LINE
    assert strike_step(LINE, step(Lineage(2, "x"), 1)) == LINE


@given(histories, steps, st.frozensets(lineages), steps)
def test_closing_and_striking_revive_nothing(
    history: History, chosen: KeptStep, needed: frozenset[Lineage], other: KeptStep
) -> None:
    if history.is_alive(chosen):
        closed = close_history(history, chosen, needed)
        assert closed.is_alive(chosen)
        assert history.is_alive(other) or not closed.is_alive(other)
        assert len(closed.entries) <= HISTORY_ENTRIES
    struck = strike_step(history, chosen)
    assert not struck.is_alive(chosen)
    assert history.is_alive(other) or not struck.is_alive(other)


@given(histories, steps, steps)
def test_nothing_newer_than_the_restored_step_is_alive(history: History, chosen: KeptStep, other: KeptStep) -> None:
    lineages_of = [entry.lineage for entry in history.entries]
    if history.is_alive(chosen) and close_history(history, chosen, set(lineages_of)).is_alive(other):
        assert lineages_of.index(other.lineage) >= lineages_of.index(chosen.lineage)
        assert other.lineage != chosen.lineage or other.number <= chosen.number


@given(histories, st.lists(steps, max_size=6), steps)
def test_each_strike_takes_a_step_for_good(history: History, struck: list[KeptStep], probe: KeptStep) -> None:
    for each in struck:
        history = strike_step(history, each)
    assert not any(history.is_alive(each) for each in struck)
    assert probe not in struck or not history.with_lineage(Lineage(13, "a")).is_alive(probe)
