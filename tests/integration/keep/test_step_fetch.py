"""The fetch of a step by a keeper that lacks threads or room: it has a result, and gives no holder up."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest, FetchRequest, FetchResult, OpenRequest
from elasticjob_agent.keep.keeper.step_fetch import StepFetch
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.errors import UnreachedError
from elasticjob_api.kept_steps import KeptStep
from testing.waiting import scaled
from tests.integration.keep.namespaces import run_in_small_tmpfs
from tests.integration.keep.no_threads import no_thread_left
from tests.integration.keep.parts import part_of, take
from tests.integration.keep.test_volume_scan import few_descriptors
from tests.integration.keep.transfer.nodes import JOB, LINEAGE, RUN, Node
from tests.integration.keep.transfer.nodes import PART as WHOLE

MIB = 1 << 20


@pytest.fixture
def holder(keep_dir: Path) -> Iterator[Node]:
    """A node that has the step."""
    node = Node(keep_dir)
    node.publish({"state": 1000})
    yield node
    node.close()


def test_a_fetch_without_a_thread_left_can_be_tried_again(keep_dir: Path, holder: Node) -> None:
    with contextlib.closing(Node(keep_dir.with_name("fetcher"))) as fetcher:
        with no_thread_left(), pytest.raises(UnreachedError, match="no thread left"):
            fetcher.fetch(holder.address)
        fetcher.fetch(holder.address)
        assert fetcher.files() == holder.files()


class NoThreadLeft(StepKeeper):
    """A keeper that has no thread left as soon as a fetch has begun."""

    def __init__(self, root: Path) -> None:
        super().__init__(OpenRequest(str(root), JOB, RUN), report=print, on_change=lambda: None)
        self.limit = contextlib.ExitStack()
        self.volume.unlink_dropped = lambda: self.limit.enter_context(no_thread_left())  # type: ignore[method-assign]


def test_a_fetch_of_several_parts_without_a_thread_left_is_answered(keep_dir: Path, holder: Node) -> None:
    results: queue.SimpleQueue[FetchResult] = queue.SimpleQueue()
    request = FetchRequest(KeptStep(LINEAGE, WHOLE.step.number, 2), {}, 30.0, 1)
    with contextlib.closing(NoThreadLeft(keep_dir.with_name("fetcher"))) as steps, steps.limit:
        StepFetch(
            holder.dialer,
            steps,
            request,
            {0: [holder.address], 1: [holder.address]},
            port=0,
            on_end=results.put,
            clock=time.monotonic,
        )
        result = results.get(timeout=scaled(30.0))
    assert result.is_unreached
    assert "no thread left" in result.error
    assert threading.stack_size() == 0


@pytest.mark.parametrize("dropped", ["by the round", "by the fetch"])
def test_the_step_that_is_fetched_gets_the_room_of_what_is_being_deleted(keep_dir: Path, dropped: str) -> None:
    """No other thread deletes here. On a busy node, that of low priority needs seconds for a large step."""

    async def act() -> None:
        opened = OpenRequest(str(keep_dir / "volume"), JOB, RUN)
        with (
            contextlib.closing(Node(keep_dir.with_name("holder"))) as holder,
            contextlib.closing(StepKeeper(opened, report=print, on_change=lambda: None)) as steps,
        ):
            holder.publish({"state": 5 * MIB})
            assert take(steps.volume, part_of(1), {"state": bytes(5 * MIB)})
            steps.restore(part_of(1).step)
            steps.drop([part_of(1).step])
            if dropped == "by the round":
                steps.begin(BeginRequest(RUN, LINEAGE))
            results: queue.SimpleQueue[FetchResult] = queue.SimpleQueue()
            StepFetch(
                holder.dialer,
                steps,
                FetchRequest(WHOLE.step, {}, 30.0, 1),
                {0: [holder.address]},
                port=0,
                on_end=results.put,
                clock=time.monotonic,
            )
            result = results.get(timeout=scaled(30.0))
            assert result.error == ""
            assert (Path(result.directory) / "state").read_bytes() == holder.files()["state"]

    run_in_small_tmpfs(keep_dir, 8 * MIB, act)


def test_a_fetch_without_descriptors_can_be_tried_again(keep_dir: Path) -> None:
    opened = OpenRequest(str(keep_dir), JOB, RUN)
    with contextlib.closing(StepKeeper(opened, report=print, on_change=lambda: None)) as steps:
        assert take(steps.volume, part_of(5))
        results: queue.SimpleQueue[FetchResult] = queue.SimpleQueue()
        failed = 0
        while True:
            with few_descriptors(failed):
                StepFetch(
                    KeeperDialer(lambda: pytest.fail("no peer is needed")),
                    steps,
                    FetchRequest(part_of(5).step, {}, 30.0),
                    {},
                    port=0,
                    on_end=results.put,
                    clock=time.monotonic,
                )
                result = results.get(timeout=scaled(30.0))
            if not result.error:
                break
            assert result.is_unreached, result.error
            failed += 1
        assert failed > 1
