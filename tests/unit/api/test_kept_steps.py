"""Names of kept steps: there and back, ordered by age, and refused when they are anything else."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import (
    HISTORY_LIMIT,
    PART_LIMIT,
    History,
    HistoryEntry,
    KeptStep,
    Lineage,
    PersistedStep,
    format_parts,
    parse_parts,
)
from testing.kept_steps import histories, kept_steps, lineages, persisted_steps

OLD, NEW = Lineage(6, "0000000f"), Lineage(7, "0000000a")
PARSERS: list[Callable[[str], object]] = [
    Lineage.parse,
    KeptStep.parse,
    HistoryEntry.parse,
    History.parse,
    PersistedStep.parse,
]


@given(lineages)
def test_a_lineage_is_read_as_it_was_written(lineage: Lineage) -> None:
    assert Lineage.parse(str(lineage)) == lineage


@given(kept_steps)
def test_a_step_is_read_as_it_was_written(step: KeptStep) -> None:
    assert KeptStep.parse(str(step)) == step


@given(histories)
def test_a_history_is_read_as_it_was_written(history: History) -> None:
    assert History.parse(str(history)) == history


@given(persisted_steps)
def test_a_persisted_step_is_read_as_it_was_written(step: PersistedStep) -> None:
    assert PersistedStep.parse(str(step)) == step


@pytest.mark.parametrize("text", ["", "7.0000000a.120.8", "..7.0000000a.120.8", "a/b.7.0000000a.120.8"])
def test_a_text_that_is_no_persisted_step_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        PersistedStep.parse(text)


def test_the_texts_are_short() -> None:
    assert str(KeptStep(NEW, 120, 8)) == "7.0000000a.120.8"
    assert str(History((HistoryEntry(NEW, None), HistoryEntry(OLD, 120)))) == "7.0000000a.*,6.0000000f.120"
    assert str(History()) == ""


@given(st.text(alphabet="0123456789abcdef.,*-/ \0", max_size=40) | st.text(max_size=40))
def test_any_text_is_what_its_value_writes_or_a_record_error(text: str) -> None:
    for parse in PARSERS:
        try:
            assert str(parse(text)) == text
        except RecordError:
            continue


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("7.a.120", id="no count of parts"),
        pytest.param("7.a.120.8.9", id="a word too many"),
        pytest.param("7..120.8", id="an empty nonce"),
        pytest.param("7.a/b.120.8", id="a slash in the nonce"),
        pytest.param("7.a\n.120.8", id="a line break in the nonce"),
        pytest.param(f"7.{'a' * 65}.120.8", id="a long nonce"),
        pytest.param("07.a.120.8", id="a leading zero"),
        pytest.param("+7.a.120.8", id="a sign"),
        pytest.param("٧.a.120.8", id="digits of another script"),
        pytest.param("10000000000.a.120.8", id="a round too high"),
        pytest.param("7.a.1000000000000000.8", id="a number too high"),
        pytest.param(f"7.a.{'9' * 5000}.8", id="a number too long for int"),
        pytest.param("7.a.120.0", id="no parts"),
        pytest.param("7.a.120.65537", id="too many parts"),
        pytest.param("7.a.*.8", id="any number"),
    ],
)
def test_a_text_that_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        KeptStep.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("7.a", id="no highest step"),
        pytest.param("7.a.*,", id="an empty entry"),
        pytest.param("7.a.*,7.a.3", id="a lineage twice"),
        pytest.param("7.a.-1", id="a negative step"),
        pytest.param(",".join(f"{round_}.a.*" for round_ in range(HISTORY_LIMIT + 1)), id="too many entries"),
        pytest.param("," * 1_000_000, id="a million commas"),
    ],
)
def test_a_text_that_is_no_history_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        History.parse(text)


@pytest.mark.parametrize("nonce", ["..", "a/b", ".", "", "a b", "ä"])
def test_no_lineage_can_be_built_that_leaves_a_directory(nonce: str) -> None:
    with pytest.raises(RecordError):
        Lineage(1, nonce)


def test_steps_are_ordered_by_the_round_of_their_lineage_and_then_by_number() -> None:
    # The nonce of the older lineage is the higher one, and 9 is the higher digit.
    ascending = [KeptStep(OLD, 9, 2), KeptStep(OLD, 120, 1), KeptStep(NEW, 3, 1), KeptStep(NEW, 20, 1)]
    descending = [ascending[3], ascending[2], ascending[1], ascending[0]]
    assert sorted(descending) == ascending


@pytest.mark.parametrize(
    ("step", "is_alive"),
    [
        (KeptStep(NEW, 10**9, 1), True),
        (KeptStep(OLD, 120, 4), True),
        (KeptStep(OLD, 121, 4), False),
        (KeptStep(Lineage(6, "0000000e"), 1, 4), False),
    ],
    ids=["of the newest lineage", "the highest of an older one", "above the highest", "of another nonce"],
)
def test_a_step_is_alive_if_the_training_descends_from_it(step: KeptStep, *, is_alive: bool) -> None:
    assert History((HistoryEntry(NEW, None), HistoryEntry(OLD, 120))).is_alive(step) is is_alive


def test_a_training_that_goes_on_adds_its_lineage_with_all_of_its_steps() -> None:
    before = History((HistoryEntry(OLD, 120),))
    assert str(before.with_lineage(NEW)) == "7.0000000a.*,6.0000000f.120"
    assert str(before.with_lineage(OLD)) == "6.0000000f.*"


def test_a_history_is_followed_by_the_lineages_that_it_has_not() -> None:
    newer = History((HistoryEntry(NEW, None), HistoryEntry(OLD, 3)))
    assert str(newer.followed_by(History((HistoryEntry(OLD, 9), HistoryEntry(Lineage(1, "a"), 2))))) == (
        f"{NEW}.*,{OLD}.3,1.a.2"
    )


@given(histories, st.integers(0, HISTORY_LIMIT))
def test_a_history_never_grows_beyond_what_is_read(history: History, rounds: int) -> None:
    for round_ in range(rounds + 2):
        history = history.with_lineage(Lineage(round_, "another"))
    assert History.parse(str(history)) == history
    assert history.entries[0] == HistoryEntry(Lineage(rounds + 1, "another"), None)


def test_no_step_is_alive_in_an_empty_history() -> None:
    assert not History().is_alive(KeptStep(NEW, 0, 1))


@given(st.frozensets(st.integers(0, PART_LIMIT - 1) | st.integers(0, 40), min_size=1))
def test_indices_of_parts_are_read_as_they_were_written(indices: frozenset[int]) -> None:
    assert parse_parts(format_parts(indices), PART_LIMIT) == indices


def test_consecutive_indices_are_a_range() -> None:
    assert format_parts([5, 0, 2, 1, 3]) == "0-3,5"
    assert len(format_parts(range(PART_LIMIT))) == len("0-65535")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("1,", id="an empty word"),
        pytest.param("8", id="an index that the step does not have"),
        pytest.param("0-99999", id="a range beyond the step"),
        pytest.param("3-2", id="a range backwards"),
        pytest.param("4,3", id="descending"),
        pytest.param("0-3,3", id="an index twice"),
        pytest.param("0-999999999999", id="a range too long to read"),
        pytest.param("-1", id="a negative index"),
        pytest.param("٣", id="a digit of another script"),
    ],
)
def test_a_text_that_is_no_list_of_parts_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        parse_parts(text, 8)


@given(st.text(alphabet="0123456789,-", max_size=30) | st.text(max_size=10), st.integers(1, PART_LIMIT))
def test_any_text_is_a_list_of_parts_below_the_limit_or_a_record_error(text: str, parts: int) -> None:
    try:
        found = parse_parts(text, parts)
    except RecordError:
        return
    assert found
    assert max(found) < parts
