"""The keeper dies before each single file operation of each act: the next one finds all that was whole, and no more."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import Lineage
from tests.integration.keep.parts import FILES, LINEAGE, contents, part_of, publish, receive, take

OLD, NEW, PEERS = part_of(5, 0, 2), part_of(6, 0, 2), part_of(5, 1, 2)
OTHERS = {"other": b"peer's", "deep/er": b"x" * 5000}
"""The files of parts that a peer sends."""


def expected(part: KeptPart) -> dict[str, bytes]:
    return OTHERS if part.index == 1 else FILES


def prepare(keep_dir: Path) -> None:
    """Make a volume with one own part; a second one is published, and waits."""
    volume = Volume(keep_dir, job="/jobs/a", run="run1")
    assert take(volume, OLD)
    publish(volume.begin_round(LINEAGE), "step-6.0-of-2")
    volume.close()


def take_new(volume: Volume) -> None:
    volume.begin_round(LINEAGE)
    volume.take("step-6.0-of-2", NEW)


def receive_part(volume: Volume) -> None:
    receive(volume, PEERS, OTHERS)


def drop(volume: Volume) -> None:
    volume.drop([OLD])


def withdraw(volume: Volume) -> None:
    volume.withdraw(OLD, "a test")


def link(volume: Volume) -> None:
    receive(volume, PEERS, OTHERS)
    volume.link(OLD.step, [0, 1])


def begin_next(volume: Volume) -> None:
    volume.begin_round(LINEAGE)
    take_new(volume)
    volume.end_round(LINEAGE)
    volume.begin_round(Lineage(4, "next"))


def empty(volume: Volume) -> None:
    volume.drop([OLD])
    volume.trash.empty()


def adopt(volume: Volume) -> None:
    volume.adopt_run("run2")


def erase(volume: Volume) -> None:
    volume.erase()


_WRITES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate", "os.chmod", "open"}


def run_until(keep_dir: Path, act: Callable[[Volume], None], operation: int) -> bool:
    """Run an act in a process that is killed before its file operation of this number; return whether it was."""
    pid = os.fork()
    if pid == 0:
        try:
            _die_before(str(keep_dir), operation)
            act(Volume(keep_dir, job="/jobs/a", run="run1"))
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
    return os.WIFSIGNALED(status)


def _die_before(below: str, operation: int) -> None:
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in _WRITES and _is_below(arguments[0], below):
            count += 1
            if count == operation:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _is_below(path: object, below: str) -> bool:
    """Return whether a path is in the volume; a relative one is, as the trash is emptied by descriptors."""
    name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    return not name.startswith("/") or name.startswith(below)


def volumes_after(keep_dir: Path, act: Callable[[Volume], None]) -> Iterator[tuple[int, Volume]]:
    """Yield the volume of the next keeper after each end that this act can have."""
    operation = 0
    is_killed = True
    while is_killed:
        operation += 1
        where = keep_dir / str(operation)
        prepare(where)
        is_killed = run_until(where, act, operation)
        reports: list[str] = []
        volume = Volume(where, job="/jobs/a", run="run1", report=reports.append)
        assert reports == [], f"after the end before operation {operation}"
        yield operation, volume
        volume.close()


@pytest.mark.parametrize("act", [take_new, receive_part, drop, withdraw, link, begin_next, empty, adopt, erase])
def test_each_part_is_whole_or_not_held_after_any_end(keep_dir: Path, act: Callable[[Volume], None]) -> None:
    ends = 0
    for _, volume in volumes_after(keep_dir, act):
        for part in volume.parts():
            assert contents(volume.open_part(part.step, part.index).path) == expected(part)
            assert volume.link(part.step, [part.index])
        assert {path.name for path in volume.root.iterdir()} == {
            "volume.json",
            "in",
            "held",
            "part",
            "kept",
            "persist",
            "trash",
        }
        assert not list((volume.root / "held").rglob("*.tmp"))
        volume.trash.empty()
        assert list((volume.root / "trash").iterdir()) == []
        ends += 1
    assert ends > 3, "the act had fewer file operations than a test of it needs"


@pytest.mark.parametrize("act", [take_new, receive_part, link, begin_next])
def test_nothing_that_was_published_is_lost_by_any_end(keep_dir: Path, act: Callable[[Volume], None]) -> None:
    for operation, volume in volumes_after(keep_dir, act):
        for lineage in volume.incoming_lineages():
            for name in volume.published_names(lineage):
                assert volume.take(name, NEW), f"after the end before operation {operation}"
        assert {OLD, NEW} <= set(volume.parts()), f"after the end before operation {operation}"


def test_what_has_arrived_is_not_sent_again_after_any_end(keep_dir: Path) -> None:
    def receive_most(volume: Volume) -> None:
        receipt = volume.receive_part(PEERS.step, 1, [(name, len(data)) for name, data in OTHERS.items()])
        receipt.write(0, OTHERS["other"])
        receipt.write(1, OTHERS["deep/er"][:4000])
        os.kill(os.getpid(), signal.SIGKILL)

    prepare(keep_dir)
    assert run_until(keep_dir, receive_most, 10_000)
    volume = Volume(keep_dir, job="/jobs/a", run="run1")
    receipt = volume.receive_part(PEERS.step, 1, [(name, len(data)) for name, data in OTHERS.items()])
    assert receipt.offsets == (6, 4000)
