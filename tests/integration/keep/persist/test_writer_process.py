"""A writer process between two commands: it is given up for a command that it does not answer, and for nothing else."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.keep.persist import writer as writer_module
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.layout import TRASH, SourceFile, whole_name
from elasticjob_agent.keep.persist.messages import (
    CheckCommand,
    Command,
    ListCommand,
    PartFiles,
    RemoveCommand,
    WriteCommand,
    WriterAnswer,
    decode_answer,
    encode_command,
)
from elasticjob_agent.keep.persist.writer import Writer
from elasticjob_agent.keep.persist.writer_process import MOST_HUNG, STALL_S, WriterProcess
from testing.waiting import eventually
from tests.integration.keep.namespaces import run_beside_hung_directory, run_in_small_tmpfs
from tests.integration.keep.parts import write_files
from tests.integration.keep.persist.job_dirs import JOB, PARTS, WHOLE, step_of, write_part, write_step

_ANSWER_S = 60.0
_TRASH = 50
"""So many files are in the trash."""


class SetClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now_s


def answer_to_list(writer: WriterProcess) -> WriterAnswer:
    """Return the answer of a writer to a list."""
    return answer_to(writer, ListCommand())


def answer_to(writer: WriterProcess, command: Command) -> WriterAnswer:
    """Return the answer of a writer to a command."""
    answers: list[WriterAnswer] = []
    has_ended = threading.Event()

    def on_end(reply: WriterAnswer) -> None:
        answers.append(reply)
        has_ended.set()

    writer.send(command, on_end)
    assert has_ended.wait(_ANSWER_S), "the writer has not answered"
    return answers[0]


def test_a_writer_without_commands_for_longer_than_a_stall_answers_the_next_one(shared: Path) -> None:
    clock = SetClock()
    writer = WriterProcess(str(shared), JOB, clock=clock)
    assert answer_to_list(writer).error == ""
    clock.now_s += 10 * STALL_S
    assert answer_to_list(writer).error == ""


def test_a_look_at_each_file_of_a_step_is_progress(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer without progress is given up, and the next one would begin anew."""
    monkeypatch.setattr(writer_module, "_PROGRESS_S", 0.0)
    directory, step = JobDir(shared, JOB), step_of(7)
    directory.open()
    for index, files in PARTS.items():
        write_part(directory, tmp_path, step, index, files)
    commands: list[Command] = [WriteCommand(step), CheckCommand(step)]
    for command in commands:  # each has a writer of its own: one that has written a step deletes files afterwards
        keeper, theirs = socket.socketpair()
        with keeper, keeper.makefile("rb") as lines:
            threading.Thread(target=Writer(theirs, JobDir(shared, JOB)).run, daemon=True).start()
            keeper.sendall(encode_command(1, command))
            looks = [decode_answer(lines.readline()) for _ in WHOLE]
            assert not any(reply.is_end for reply in looks)
            reply = decode_answer(lines.readline())
            assert (reply.is_end, reply.error) == (True, "")


@pytest.mark.parametrize("depth", [0, 1])
def test_each_file_that_is_deleted_is_progress(directory: JobDir, monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    monkeypatch.setattr(writer_module, "_PROGRESS_S", 0.0)
    fill_trash(directory, depth=depth)
    keeper, theirs = socket.socketpair()
    with keeper, keeper.makefile("rb") as lines:
        keeper.settimeout(_ANSWER_S)
        threading.Thread(target=Writer(theirs, directory).run, daemon=True).start()
        keeper.sendall(encode_command(1, RemoveCommand(())))
        deletions = [decode_answer(lines.readline()) for _ in range(_TRASH)]
        assert not any(reply.is_end for reply in deletions)


def test_a_write_does_not_wait_until_the_trash_is_empty(directory: JobDir) -> None:
    """A node has little time for the last step, and a deletion of many files may need minutes."""
    fill_trash(directory)
    deletions = threading.Semaphore(0)
    keeper, theirs = socket.socketpair()
    with keeper, keeper.makefile("rb") as lines:
        keeper.settimeout(_ANSWER_S)
        writer = Writer(theirs, directory)
        directory.on_file = lambda: wait_for(deletions)
        threading.Thread(target=writer.run, daemon=True).start()
        keeper.sendall(encode_command(1, WriteCommand(step_of(1))))
        assert decode_answer(lines.readline()).command == 1
        assert len(trash_of(directory)) == _TRASH
        for number, command in ((2, WriteCommand(step_of(2))), (3, ListCommand())):
            keeper.sendall(encode_command(number, command))
        assert decode_answer(lines.readline()).command == 3, "the second write waits now"
        deletions.release()
        assert decode_answer(lines.readline()).command == 2
        assert len(trash_of(directory)) == _TRASH
        deletions.release(2 * _TRASH)
        eventually(lambda: not trash_of(directory), what="the trash is empty")


def wait_for(semaphore: threading.Semaphore) -> None:
    """Take one permit."""
    semaphore.acquire()


def trash_of(directory: JobDir) -> list[Path]:
    """Return what is being deleted."""
    return list((directory.path / TRASH).iterdir())


def fill_trash(directory: JobDir, *, depth: int = 0) -> None:
    """Let many files be there that were thrown away."""
    above = directory.path / TRASH / "/".join("d" * depth)
    above.mkdir(exist_ok=True)
    for number in range(_TRASH):
        (above / str(number)).touch()


def test_nothing_is_removed_while_a_step_that_was_to_stay_is_gone(directory: JobDir, tmp_path: Path) -> None:
    """A person removes the newest step by hand. The keeper has an older list, and would remove the one before."""
    steps = [step_of(number) for number in (1, 2, 3)]
    for step in steps:
        write_step(directory, tmp_path, step)
    oldest, older, newest = map(str, steps)
    writer = WriterProcess(str(directory.path.parent), JOB)
    (directory.path / whole_name(steps[-1])).rename(tmp_path / "away")
    assert answer_to(writer, RemoveCommand((oldest, older), (newest,))).error == ""
    assert directory.whole_steps().keys() == {*steps[:2]}
    assert answer_to(writer, RemoveCommand((oldest,), (older,))).error == ""
    assert directory.whole_steps().keys() == {steps[1]}


def test_steps_that_found_no_room_leave_it_to_a_later_one(keep_dir: Path, tmp_path: Path) -> None:
    """The bytes of a step that was not completed are thrown away when the next one is written."""
    shared = keep_dir / "disk"
    sizes = {"first": 5 << 20, "second": 2 << 20}
    source = write_files(tmp_path / "part", {name: bytes(size) for name, size in sizes.items()})

    async def act() -> None:
        writer = WriterProcess(str(shared), JOB)

        def write(number: int) -> str:
            part = PartFiles(0, str(source), tuple(SourceFile(*each) for each in sizes.items()))
            return answer_to(writer, WriteCommand(step_of(number, parts=1), (part,))).error

        assert answer_to_list(writer).error == ""
        filler = shared / "of-another-program"
        filler.write_bytes(bytes(2 << 20))
        for number in (1, 2):
            assert "No space left on device" in write(number)
        filler.unlink()
        assert write(3) == ""

    run_in_small_tmpfs(shared, 8 << 20, act)


def test_writers_that_cannot_be_killed_are_few_and_another_one_is_started_when_they_end(tmp_path: Path) -> None:
    async def act(end_file_system: Callable[[], None]) -> None:
        writer = WriterProcess(str(tmp_path / "hung"), JOB, stall_s=2.0)
        eventually(lambda: "no further one is started" in answer_to_list(writer).error, within_s=60.0, what="the limit")
        assert len(psutil.Process().children()) == MOST_HUNG
        end_file_system()
        eventually(lambda: "hang" not in answer_to_list(writer).error, within_s=60.0, what="another writer")

    run_beside_hung_directory(tmp_path / "hung", act)
