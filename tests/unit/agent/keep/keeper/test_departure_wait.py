"""The wait of a node that leaves ends when its steps are committed without it, or when its time is over."""

import pytest

from elasticjob_agent.keep.keeper.departure_wait import DepartureWait
from elasticjob_agent.keep.keeper.messages import LingerRequest, LingerResult
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_api.kept_steps import History, KeptStep, Lineage

OLD, NEW = Lineage(3, "a"), Lineage(4, "b")
STEP, LATER = KeptStep(OLD, 5, 2), KeptStep(OLD, 6, 2)
HELD = {STEP: frozenset({0})}
HISTORY = History().with_lineage(OLD)


def result(held: dict[KeptStep, frozenset[int]], point: SafePoint | None, *, now_s: float = 1.0) -> LingerResult | None:
    """Return the end of a wait that began at 0 and may take 30 s."""
    return DepartureWait(LingerRequest(HISTORY, NEW, 30.0), now_s=0.0).result(held, point, now_s=now_s)


@pytest.mark.parametrize(
    "point", [None, SafePoint(NEW), SafePoint(OLD, STEP), SafePoint(NEW, KeptStep(OLD, 4, 2))], ids=str
)
def test_it_goes_on_while_the_step_is_not_committed_in_the_active_round(point: SafePoint | None) -> None:
    assert result(HELD, point) is None
    assert result(HELD, point, now_s=30.0) == LingerResult(is_drained=False)


def test_it_ends_when_the_step_or_a_later_one_is_committed() -> None:
    assert result(HELD, SafePoint(NEW, STEP)) == LingerResult(is_drained=True)
    assert result(HELD, SafePoint(NEW, LATER)) == LingerResult(is_drained=True)


def test_it_ends_at_once_if_the_training_does_not_descend_from_what_is_held() -> None:
    assert result({KeptStep(Lineage(2, "x"), 5, 1): frozenset({0})}, None) == LingerResult(is_drained=True)
    assert result({}, None) == LingerResult(is_drained=True)


def test_the_time_that_is_left_is_never_negative() -> None:
    wait = DepartureWait(LingerRequest(within_s=30.0), now_s=5.0)
    assert [wait.left_s(now_s) for now_s in (5.0, 20.0, 99.0)] == [30.0, 15.0, 0.0]
