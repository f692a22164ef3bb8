"""A writer process between two commands: it is given up for a command that it does not answer, and for nothing else."""

import threading
from pathlib import Path

from elasticjob_agent.keep.persist.messages import ListCommand, WriterAnswer
from elasticjob_agent.keep.persist.writer_process import STALL_S, WriterProcess
from tests.integration.keep.persist.job_dirs import JOB

_ANSWER_S = 60.0


class SetClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now_s


def answer_to_list(writer: WriterProcess) -> WriterAnswer:
    """Return the answer of a writer to a list."""
    answers: list[WriterAnswer] = []
    has_ended = threading.Event()

    def on_end(reply: WriterAnswer) -> None:
        answers.append(reply)
        has_ended.set()

    writer.send(ListCommand(), on_end)
    assert has_ended.wait(_ANSWER_S), "the writer has not answered"
    return answers[0]


def test_a_writer_without_commands_for_longer_than_a_stall_answers_the_next_one(shared: Path) -> None:
    clock = SetClock()
    writer = WriterProcess(str(shared), JOB, clock=clock)
    assert answer_to_list(writer).error == ""
    clock.now_s += 10 * STALL_S
    assert answer_to_list(writer).error == ""
