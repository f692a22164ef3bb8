"""The part of a keeper that persists steps: orders that come at once."""

import threading
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.keep.keeper.persistence import Persistence
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.persisting import PersistOrder
from elasticjob_api.kept_steps import KeptStep
from elasticjob_api.rendezvous_state import Member
from tests.integration.keep.keepers import JOB, RUN
from tests.integration.keep.parts import LINEAGE, part_of, take

ME = Member(0, "0000000a")
STEP = part_of(100).step


class SlowKeeper(StepKeeper):
    """Counts the calls for the parts of a step; the first one has to wait."""

    def __init__(self, opened: OpenRequest) -> None:
        super().__init__(opened, report=lambda _: None, on_change=lambda: None)
        self.asked = 0
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def own_parts(self, step: KeptStep) -> frozenset[int]:
        """Return the own parts of a step."""
        self.asked += 1
        if self.asked == 1:
            self.has_begun.set()
            assert self.may_go_on.wait(60.0)
        return frozenset(super().own_parts(step))


@pytest.fixture
def opened(keep_dir: Path, shared: Path) -> OpenRequest:
    return OpenRequest(str(keep_dir), JOB, RUN, persist_to=str(shared))


def test_one_order_that_two_threads_learn_is_taken_once(opened: OpenRequest) -> None:
    steps = SlowKeeper(opened)
    assert take(steps.volume, part_of(100))
    persistence = Persistence(opened, steps, report=lambda _: None, send=lambda _: None)
    persistence.join(ME)
    point = SafePoint(LINEAGE, STEP, order=PersistOrder(STEP, "", 1))
    first = threading.Thread(target=persistence.learn, args=(point, (ME,)))
    first.start()
    assert steps.has_begun.wait(60.0)
    persistence.learn(point, (ME,))
    steps.may_go_on.set()
    first.join()
    assert steps.asked == 1
