"""The directory in which workers find a step: all files of its parts, or none at all."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import FetchRequest, OpenRequest
from elasticjob_agent.keep.keeper.step_fetch import StepFetch
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.handshake import KeeperIdentity
from elasticjob_agent.keep.transfer.session import KeeperCredentials
from elasticjob_agent.keep.volume.errors import PartChangedError, PartMissing, PartsCollideError
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member
from tests.integration.keep.parts import LINEAGE, contents, part_of, receive, take, write_files

FIRST = {".metadata": b"m", "__0_0.distcp": b"zero", "deep/er/a": b"1"}
SECOND = {"__1_0.distcp": b"one", "deep/b": b"2"}


@pytest.fixture
def volume(keep_dir: Path) -> Volume:
    return Volume(keep_dir, job="/jobs/a", run="run1")


def test_the_files_of_all_parts_are_in_one_directory_and_share_their_memory(volume: Volume) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    assert receive(volume, part_of(5, 1, 2), SECOND)
    kept = volume.link(part_of(5, 0, 2).step, [0, 1])
    assert contents(kept) == FIRST | SECOND
    held = volume.open_part(part_of(5, 0, 2).step, 0).path
    assert (kept / ".metadata").samefile(held / ".metadata")


def test_a_step_is_linked_again_as_it_is_held(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    kept = volume.link(part_of(5).step, [0])
    (kept / "worker's").write_bytes(b"x")
    assert contents(volume.link(part_of(5).step, [0])) == FIRST


def test_what_an_earlier_attempt_left_is_no_obstacle(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    write_files(volume.root / "kept" / f".{part_of(5).step}.tmp", {"left": b"x"})
    assert contents(volume.link(part_of(5).step, [0])) == FIRST


def test_a_part_that_is_not_held_is_missing(volume: Volume) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    with pytest.raises(PartMissing):
        volume.link(part_of(5, 0, 2).step, [0, 1])
    assert list((volume.root / "kept").iterdir()) == []


def test_equal_files_of_one_name_are_one_file(volume: Volume) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    assert receive(volume, part_of(5, 1, 2), SECOND | {".metadata": b"m"})
    assert contents(volume.link(part_of(5, 0, 2).step, [0, 1])) == FIRST | SECOND


@pytest.mark.parametrize("other", [{".metadata": b"M"}, {".metadata": b"mm"}, {".metadata/x": b""}, {"deep": b""}])
def test_different_files_of_one_name_collide(volume: Volume, other: dict[str, bytes]) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    assert receive(volume, part_of(5, 1, 2), other)
    with pytest.raises(PartsCollideError, match=r"\.metadata|deep"):
        volume.link(part_of(5, 0, 2).step, [0, 1])
    assert not (volume.root / "kept" / str(part_of(5, 0, 2).step)).exists()


def test_a_part_that_a_worker_changed_through_its_link_is_not_restored_again(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    (volume.link(part_of(5).step, [0]) / ".metadata").write_bytes(b"changed")
    with pytest.raises(PartChangedError):
        volume.link(part_of(5).step, [0])
    assert volume.holdings() == {}


def test_two_links_of_one_step_at_once_are_both_whole(volume: Volume) -> None:
    files = {f"file-{number}": b"x" for number in range(1000)}
    assert take(volume, part_of(5), files)
    for _ in range(5):
        with ThreadPoolExecutor(2) as pool:
            links = [pool.submit(volume.link, part_of(5).step, [0]) for _ in range(2)]
        (kept,) = {link.result() for link in links}
        assert contents(kept) == files


class SlowKeeper(StepKeeper):
    """Links a step only when the test lets it."""

    def __init__(self, keep_dir: Path) -> None:
        super().__init__(OpenRequest(str(keep_dir), "/jobs/a", "run1"), report=lambda _: None, on_change=lambda: None)
        self.has_begun, self.may_link, self.has_ended = threading.Event(), threading.Event(), threading.Event()

    def restore(self, step: KeptStep) -> Path:
        """Return the links of a step."""
        self.has_begun.set()
        assert self.may_link.wait(60.0)
        try:
            return super().restore(step)
        finally:
            self.has_ended.set()


def test_a_fetch_that_was_ended_exchanges_no_links_of_a_later_request(keep_dir: Path) -> None:
    """The workers may read them already."""
    with closing(SlowKeeper(keep_dir)) as steps:
        step = part_of(5).step
        assert take(steps.volume, part_of(5), FIRST)
        request = FetchRequest(step, {}, 60.0)
        fetch = StepFetch(_no_peer(), steps, request, {}, port=0, on_end=lambda _: None, clock=time.monotonic)
        assert steps.has_begun.wait(60.0)
        linked = []

        def ask_again() -> None:
            fetch.cancel()
            linked.append(steps.volume.link(step, [0]).stat().st_ino)

        later = threading.Thread(target=ask_again)
        later.start()
        later.join(1.0)
        steps.may_link.set()
        later.join()
        assert steps.has_ended.wait(60.0)
        assert [(steps.volume.root / "kept" / str(step)).stat().st_ino] == linked


def _no_peer() -> KeeperDialer:
    me = KeeperIdentity("/jobs/a", "run1", Member(0, "0000000a"))
    return KeeperDialer(lambda: KeeperCredentials(me, b"secret"))


def test_two_pins_of_one_part_end_apart(volume: Volume) -> None:
    """The last step of a node is written while another write of it is being cancelled."""
    assert take(volume, part_of(5), FIRST)
    first, second = (volume.pins.add(volume.open_part(part_of(5).step, 0)) for _ in range(2))
    volume.pins.remove([first])
    assert contents(second) == FIRST
    assert not first.exists()


def test_links_stay_while_their_round_lasts_and_go_with_the_next_one(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    kept = volume.link(part_of(5).step, [0])
    volume.begin_round(LINEAGE)
    assert contents(kept) == FIRST
    volume.begin_round(Lineage(4, "x"))
    assert not kept.exists()
    assert volume.holdings() == {part_of(5).step: {0}}
