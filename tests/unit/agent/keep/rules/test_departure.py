"""A node that leaves stays until no other member can need what it holds."""

import pytest

from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.departure import is_drained
from elasticjob_api.kept_steps import KeptStep, Lineage

BEFORE, NOW = Lineage(2, "b"), Lineage(3, "c")
OLDER, RESTORED = KeptStep(BEFORE, 9, 2), KeptStep(BEFORE, 10, 2)
COMMITTED = SafePoint(NOW, committed=RESTORED)


@pytest.mark.parametrize("active", [None, NOW])
def test_a_node_without_a_step_of_the_training_may_go(active: Lineage | None) -> None:
    assert is_drained([], active, None)


def test_a_node_may_go_when_the_members_have_committed_what_it_holds() -> None:
    assert is_drained([OLDER, RESTORED], NOW, COMMITTED)


@pytest.mark.parametrize(
    ("active", "point"),
    [
        (None, None),
        (None, COMMITTED),
        (NOW, None),
        (NOW, SafePoint(NOW)),
        (NOW, SafePoint(NOW, committed=OLDER)),
        (NOW, SafePoint(BEFORE, committed=RESTORED)),
    ],
    ids=[
        "before the next round is active",
        "after a commit, while a round forms",
        "before an answer",
        "before a commit",
        "an older commit",
        "a commit of the round before",
    ],
)
def test_a_node_stays_as_long_as_its_step_may_be_fetched(active: Lineage | None, point: SafePoint | None) -> None:
    assert not is_drained([OLDER, RESTORED], active, point)
