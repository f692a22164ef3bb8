"""Random walks with one to three copies, changing leaders and several losses break no guarantee of Keep.

Walks with a wrong rule do break one: so these checks can fail.
"""

import pytest

from tests.unit.agent.keep.sim.checks import Violation
from tests.unit.agent.keep.sim.walks import walk
from tests.unit.agent.keep.sim.wrong_rules import FIRST_DESIGNS
from tests.unit.rendezvous.conftest import NIGHTLY

pytestmark = pytest.mark.timeout(3600)  # for the nightly run; by default it takes seconds

_WALKS = 1500 if NIGHTLY else 8
_ACTS = 150
_LOSSES = ("crash", "cut off", "restart", "leader", "worker", "lost answer")
_ROOM = ("crash", "leader", "worker", "lost answer", "no room", "full")


@pytest.mark.parametrize("layout", ["sharded", "copies", "rank 0"])
@pytest.mark.parametrize(("copies", "nodes"), [(1, 3), (2, 4), (2, 5), (3, 5)])
def test_no_random_walk_breaks_a_guarantee(copies: int, nodes: int, layout: str) -> None:
    acts = sum(
        walk(seed, acts=_ACTS, nodes=nodes, copies=copies, layout=layout, has_directory=bool(seed % 2))
        for seed in range(_WALKS)
    )
    assert acts > _WALKS * _ACTS / 2


@pytest.mark.parametrize("faults", [_LOSSES, _ROOM], ids=["losses", "no room"])
@pytest.mark.parametrize("layout", ["sharded", "copies"])
def test_two_copies_outlive_two_losses_and_changes_of_the_leader(layout: str, faults: tuple[str, ...]) -> None:
    for seed in range(_WALKS):
        walk(seed, acts=_ACTS, nodes=4, copies=2, layout=layout, faults=faults, has_directory=bool(seed % 2))


@pytest.mark.parametrize(
    ("design", "layout", "guarantee"),
    [(3, "sharded", "G9"), (4, "sharded", "G5"), (5, "sharded", "G9"), (14, "sharded", "G7")],
)
def test_walks_with_two_copies_break_a_guarantee_of_a_wrong_rule(design: int, layout: str, guarantee: str) -> None:
    def walk_often() -> None:
        for seed in range(60):
            rules = FIRST_DESIGNS[design]
            walk(seed, acts=_ACTS, nodes=4, copies=2, layout=layout, faults=_ROOM, rules=rules, has_directory=False)

    with pytest.raises(Violation, match=guarantee):
        walk_often()
