"""Parts that no node publishes: they are named once enough newer steps were published, and not before."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from elasticjob_agent.keep.rules.commit import Announcement
from elasticjob_agent.keep.rules.missing_parts import OldestWait, describe_missing_parts
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member

NOW, BEFORE = Lineage(3, "c"), Lineage(2, "b")
MEMBERS = [Member(slot, "00000000") for slot in range(3)]
STEP = KeptStep(NOW, 40, 8)


def waits(*parts: int, step: KeptStep | None = STEP, overdue: bool = True) -> Announcement:
    """Return what a node announces that waits with these parts of a step."""
    held = {} if step is None else {step: frozenset(parts)}
    return Announcement(lineage=NOW, held=held, oldest_uncommitted=step, is_restored=True, is_overdue=overdue)


IDLE = waits(step=None, overdue=False)


def describe(announced: Sequence[Announcement]) -> str:
    return describe_missing_parts(NOW, dict(zip(MEMBERS, announced, strict=False)), MEMBERS)


@pytest.mark.parametrize(
    ("announced", "missing"),
    [
        ((waits(0, 1, 2, 3), waits(4, 5, 6), IDLE), "part 7 of 8"),
        ((waits(0, 1), IDLE, IDLE), "parts 2-7 of 8"),
        ((waits(0, overdue=False), waits(1, 2, 5), waits(3)), "parts 4,6-7 of 8"),
    ],
)
def test_the_missing_parts_are_named_with_their_step(announced: Sequence[Announcement], missing: str) -> None:
    assert describe(announced).startswith(f"no node has {missing} of step 40, so no newer step is committed; let ")


@pytest.mark.parametrize(
    "announced",
    [
        (IDLE, IDLE, IDLE),
        (waits(0, 1, 2, overdue=False), IDLE, IDLE),
        (waits(0, 1, 2, 3), waits(4, 5), waits(6, 7)),
        (waits(0), IDLE),
        (waits(0), IDLE, replace(IDLE, lineage=BEFORE)),
        (waits(0), IDLE, replace(IDLE, is_restored=False)),
        (waits(0), IDLE, waits(1, step=KeptStep(NOW, 41, 8), overdue=False)),
        (waits(0, step=KeptStep(BEFORE, 40, 8)), IDLE, IDLE),
    ],
    ids=[
        "nothing published",
        "not for long",
        "whole",
        "a silent member",
        "a member of another round",
        "a member that has not started",
        "the floor passes it",
        "a restored step",
    ],
)
def test_a_step_that_may_become_whole_or_is_dropped_is_not_named(announced: Sequence[Announcement]) -> None:
    assert describe(announced) == ""


def test_the_sentence_is_short_for_any_parts() -> None:
    step = KeptStep(NOW, 40, 65_536)
    assert len(describe((waits(*range(0, 65_536, 2), step=step), IDLE, IDLE))) < 500


def test_a_wait_is_overdue_after_five_newer_steps_and_ends_with_its_step() -> None:
    wait = OldestWait()
    for number in (1, 2, 2, 3, 4, 5):
        own = [KeptStep(NOW, 1, 2), KeptStep(NOW, number, 2)]
        wait = wait.after(own, own[0])
        assert not wait.is_overdue
    wait = wait.after([KeptStep(NOW, 1, 2), KeptStep(NOW, 6, 2)], KeptStep(NOW, 1, 2))
    assert wait.is_overdue
    assert not wait.after([KeptStep(NOW, 6, 2)], KeptStep(NOW, 6, 2)).is_overdue
