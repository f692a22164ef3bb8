"""The names under which a script publishes; everything else is refused, or is the script's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.rules.step_name import (
    StepName,
    is_like_step_name,
    is_of_other_number,
    is_step_name,
    parse_step_name,
)
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import PART_LIMIT, STEP_NUMBER_LIMIT, KeptStep, Lineage


def test_a_name_alone_is_a_whole_step() -> None:
    assert is_step_name("step-0")
    assert parse_step_name("step-0") == StepName(0, 0, 1)
    assert parse_step_name("step-120").step_of(Lineage(7, "a")) == KeptStep(Lineage(7, "a"), 120, 1)


@given(st.integers(0, STEP_NUMBER_LIMIT - 1), st.integers(1, PART_LIMIT), st.data())
def test_a_part_is_read_as_it_was_named(number: int, parts: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, parts - 1))
    assert parse_step_name(f"step-{number}.{index}-of-{parts}") == StepName(number, index, parts)


@pytest.mark.parametrize(
    "name",
    [
        "step-",
        "step-007",
        "step-+1",
        "step--1",
        "step-1 ",
        "step-1\n",
        "step-1\0",
        "step-1/../2",
        "step-../x",
        "step-1.0",
        "step-1.0-of-",
        "step-1.0-of-0",
        "step-1.8-of-8",
        "step-1.00-of-8",
        "step-1.0-of-08",
        "step-1.0-of-65537",
        "step-1.0-of-8.tmp",
        "step-1000000000000000",
        "step-" + "9" * 5000,
        "step-٣",
        "step-1.0-OF-8",
        "step-5.0_of_2",
        "step_120",
        "Step-120",
        "STEP-120",
        "steps-120",
        "step120",
        "step 120",
        "step.120",
        "step-120.pt",
    ],
)
def test_a_name_that_is_almost_that_of_a_step_is_refused_with_the_form(name: str) -> None:
    assert is_like_step_name(name)
    assert not is_step_name(name)
    with pytest.raises(RecordError, match=r"without leading zeros|counts from 0|parts"):
        parse_step_name(name)


@pytest.mark.parametrize(
    "name", ["tmp-120", "tmp-step-120", ".step-120", "global_step120", "stepper-1", "steps", "", "../step-1"]
)
def test_another_name_belongs_to_the_script(name: str) -> None:
    assert not is_like_step_name(name)
    with pytest.raises(RecordError):
        parse_step_name(name)


@given(st.text("step-0123456789.of/", max_size=30) | st.text(max_size=30))
def test_any_name_is_a_part_or_a_record_error(name: str) -> None:
    try:
        found = parse_step_name(name)
    except RecordError:
        return
    suffix = "" if found.parts == 1 and "-of-" not in name else f".{found.index}-of-{found.parts}"
    assert name == f"step-{found.number}{suffix}"


@given(st.text("step-0123456789.of/", max_size=20).map(lambda text: f"step-{text}"))
def test_a_name_that_begins_as_a_step_is_never_ignored(name: str) -> None:
    assert is_like_step_name(name)


def test_the_parts_of_one_step_have_one_number_however_they_are_named() -> None:
    assert not is_of_other_number("step_5.0-of-2", "step_5.1-of-2")
    assert is_of_other_number("step_5.0-of-2", "step_6.0-of-2")
    assert is_of_other_number("step-", "step-1")
