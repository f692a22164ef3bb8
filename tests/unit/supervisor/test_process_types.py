"""The sentence that describes an exit."""

import signal
from dataclasses import replace

import pytest

from elasticjob_agent.supervisor import Exit


def _exit(code: int, note: str = "") -> Exit:
    return Exit(code=code, at_s=1.0, wall_ns=1, stopped_by_us=False, note=note)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (0, "exited with code 0"),
        (255, "exited with code 255"),
        (-signal.SIGKILL, "killed by SIGKILL"),
        (-signal.SIGRTMIN, "killed by SIGRTMIN"),
        (-(signal.SIGRTMIN + 1), f"killed by signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_an_exit_is_described_in_a_sentence(code: int, sentence: str) -> None:
    assert _exit(code).sentence == sentence


def test_a_core_dump_is_named_before_the_note() -> None:
    dumped = replace(_exit(-signal.SIGSEGV), core_dumped=True)
    assert dumped.sentence == "killed by SIGSEGV (core dumped)"
    assert replace(dumped, note="so").sentence == "killed by SIGSEGV (core dumped; so)"


def test_a_note_is_added() -> None:
    assert _exit(-9, "a fact").sentence == "killed by SIGKILL (a fact)"
