"""The first list of a writer: a restore waits for it, so what others put into the directory must not delay it."""

import threading
from pathlib import Path

import pytest

from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.messages import ListCommand, WriterAnswer
from elasticjob_agent.keep.persist.writer_process import WriterProcess
from tests.integration.keep.persist.job_dirs import JOB, PARTS, step_of, write_part, write_step

_ANSWER_S = 60.0


def list_first(shared: Path) -> WriterAnswer:
    """Return the first answer of a new writer."""
    answers: list[WriterAnswer] = []
    has_ended = threading.Event()

    def on_end(reply: WriterAnswer) -> None:
        answers.append(reply)
        has_ended.set()

    WriterProcess(str(shared), JOB).send(ListCommand(), on_end)
    assert has_ended.wait(_ANSWER_S), "the writer has not answered"
    return answers[0]


def leave_unfinished(directory: JobDir, memory: Path, numbers: range) -> None:
    """Write all parts of these steps, one step after the other, as writers that ended before the last rename."""
    for number in numbers:
        for index, files in PARTS.items():
            write_part(directory, memory, step_of(number), index, files)


def test_many_unfinished_steps_are_left_and_the_newest_ones_are_completed(
    directory: JobDir, shared: Path, tmp_path: Path
) -> None:
    write_step(directory, tmp_path, step_of(1))
    leave_unfinished(directory, tmp_path, range(2, 30))
    answer = list_first(shared)
    assert answer.error == ""
    assert {*(answer.steps or ())} == {str(step_of(number)) for number in (1, 26, 27, 28, 29)}
    assert len(directory.unfinished_steps()) == 24


def test_whole_steps_are_listed_when_unfinished_ones_cannot_be(directory: JobDir, shared: Path, tmp_path: Path) -> None:
    write_step(directory, tmp_path, step_of(1))
    for number in range(10_001):
        (directory.path / ".unfinished" / str(number)).touch()
    answer = list_first(shared)
    assert (answer.error, {*(answer.steps or ())}) == ("", {str(step_of(1))})


@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_without_all_parts_is_not_completed(directory: JobDir, shared: Path, tmp_path: Path, parts: int) -> None:
    for index in range(parts):
        write_part(directory, tmp_path, step_of(5), index, PARTS[index])
    assert list_first(shared).steps == {}
