"""The errors of a script: one sentence for each kind in a round, and a state that ends with a later commit."""

import pytest

from elasticjob_agent.keep.volume.script_errors import ScriptErrorKind, ScriptErrors
from elasticjob_api.kept_steps import KeptStep, Lineage

ROUND, NEXT = Lineage(3, "a"), Lineage(4, "b")


def step(number: int, lineage: Lineage = ROUND) -> KeptStep:
    return KeptStep(lineage, number, 1)


def test_the_first_error_of_each_kind_in_a_round_is_reported() -> None:
    reports: list[str] = []
    errors = ScriptErrors(reports.append)
    for number in range(1000):
        errors.note(ROUND, ScriptErrorKind.NAME, f"name {number}")
        errors.note(ROUND, ScriptErrorKind.FILE, f"file {number}")
    errors.note(NEXT, ScriptErrorKind.NAME, "name of the next round")
    assert reports == ["name 0", "file 0", "name of the next round"]


@pytest.mark.parametrize(
    ("committed", "is_over"),
    [
        (None, False),
        (step(8), False),
        (step(9), False),
        (step(10), True),
        (step(99, Lineage(2, "z")), False),
        (step(1, NEXT), True),
    ],
)
def test_an_error_stands_until_a_step_is_committed_that_was_taken_after_it(
    committed: KeptStep | None, *, is_over: bool
) -> None:
    errors = ScriptErrors()
    errors.note_taken(step(9))
    errors.note_taken(step(7))
    errors.note(ROUND, ScriptErrorKind.LOWER, "lower")
    errors.note_taken(step(10))
    assert errors.trouble(committed) == ("" if is_over else "lower")


def test_the_first_step_of_a_round_ends_an_error_before_it_and_a_restored_step_does_not() -> None:
    errors = ScriptErrors()
    errors.note_taken(step(9))
    errors.note(NEXT, ScriptErrorKind.IN_PLACE, "in place")
    assert errors.trouble(step(9)) == "in place"
    assert errors.trouble(step(0, NEXT)) == ""


def test_a_number_that_comes_again_after_it_has_fallen_is_not_reported_as_another_error() -> None:
    reports: list[str] = []
    errors = ScriptErrors(reports.append)
    errors.note(ROUND, ScriptErrorKind.LOWER, "lower")
    errors.note(ROUND, ScriptErrorKind.AGAIN, "again")
    errors.note(NEXT, ScriptErrorKind.AGAIN, "again in the next round")
    assert reports == ["lower", "again in the next round"]


def test_a_part_that_is_published_again_is_reported_and_costs_no_step() -> None:
    reports: list[str] = []
    errors = ScriptErrors(reports.append)
    errors.note(ROUND, ScriptErrorKind.AGAIN, "again")
    assert (reports, errors.trouble(None)) == (["again"], "")
