"""The part of a keeper that persists steps: orders that come at once, and what it reports of a step that has failed."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest, OpenRequest
from elasticjob_agent.keep.keeper.persist_messages import PersistUpdate
from elasticjob_agent.keep.keeper.persistence import Persistence
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.persisting import PersistOrder
from elasticjob_api.kept_steps import KeptStep, PersistedStep
from elasticjob_api.rendezvous_state import Member
from testing.waiting import eventually
from tests.integration.keep.keepers import JOB, RUN
from tests.integration.keep.parts import LINEAGE, part_of, take
from tests.integration.keep.persist.job_dirs import write_part

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


@pytest.fixture
def steps(opened: OpenRequest) -> Iterator[StepKeeper]:
    """The keeper of a node whose workers run and have published a step."""
    with closing(StepKeeper(opened, report=lambda _: None, on_change=lambda: None)) as found:
        assert take(found.volume, part_of(100))
        found.begin(BeginRequest(RUN, LINEAGE))
        found.start()
        yield found


def test_one_order_that_two_threads_learn_is_taken_once(opened: OpenRequest) -> None:
    with closing(SlowKeeper(opened)) as steps:
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


@pytest.mark.parametrize(("number", "then"), [(90, "step 100 was not"), (100, ""), (110, "")])
def test_a_step_that_was_not_persisted_is_reported_until_another_node_has_persisted_it_or_a_newer_one(
    opened: OpenRequest, steps: StepKeeper, tmp_path: Path, number: int, then: str
) -> None:
    """With full copies only one node writes. A node that has failed once may never be asked again."""
    updates: list[PersistUpdate] = []

    def send(message: object) -> None:
        if isinstance(message, PersistUpdate):
            updates.append(message)

    persistence = Persistence(opened, steps, report=lambda _: None, send=send)
    persistence.join(ME)
    eventually(lambda: updates and updates[-1].is_listed, what="the first list")
    (steps.volume.open_part(STEP, 0).path / "state.pt").write_bytes(b"changed")
    persistence.learn(SafePoint(LINEAGE, STEP, order=PersistOrder(STEP, "", 1)), (ME,))
    eventually(lambda: updates[-1].error, what="an error")
    assert updates[-1].error.startswith("step 100 was not persisted: ")
    found = PersistedStep(RUN, part_of(number).step)
    directory = JobDir(Path(opened.persist_to), JOB)
    write_part(directory, tmp_path, found, 0, {"state.pt": b"of another node"})
    assert directory.complete(found)
    persistence.learn(SafePoint(LINEAGE, STEP, persisted=found), (ME,))
    eventually(lambda: str(found) in updates[-1].steps, what="the list with the step")
    assert updates[-1].error[: len("step 100 was not")] == then
