"""The line that tells why a worker ended."""

import pytest

from elasticjob_agent.workers.error_message import MAX_CHARACTERS, error_line, traceback_tail

ENDED = """[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 7, in <module>
[rank1]:     dist.all_reduce(x)
[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:36413"""
SAYS = "[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:36413"


@pytest.mark.parametrize(
    "after",
    [
        "",
        "\n\n",
        "[rank1]:[W1121 15:11:25.123456789 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was",
        "[W1121 15:11:25.123 socket.cpp:464] [c10d] The client socket has failed to connect",
        "/lib/resource_tracker.py:254: UserWarning: resource_tracker: 6 leaked\n  warnings.warn('resource_tracker'",
    ],
)
def test_warnings_at_the_exit_do_not_hide_the_exception(after: str) -> None:
    assert error_line(f"{ENDED}\n{after}") == SAYS


@pytest.mark.parametrize(
    "said",
    [
        "no more data",
        "[rank1]:[E1121 15:11:25.123456789 ProcessGroupNCCL.cpp:632] Watchdog caught collective operation timeout",
        "train.py: error: --lr must be positive",
        "UserWarning: turned into an error",
    ],
)
def test_what_is_no_mere_warning_counts(said: str) -> None:
    assert error_line(f"{ENDED}\n{said}\n") == said


def test_a_warning_is_better_than_nothing() -> None:
    assert error_line("x.py:3: FutureWarning: gone soon\n") == "x.py:3: FutureWarning: gone soon"
    assert error_line("\n") == ""


def test_a_long_line_is_cut() -> None:
    assert error_line("y" * 5000) == "y" * MAX_CHARACTERS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(f"step 7\n{ENDED}\n", SAYS.removeprefix("[rank1]: "), id="a traceback at the very end"),
        pytest.param(f"{ENDED}\nx.py:3: UserWarning: leaked\n", SAYS.removeprefix("[rank1]: "), id="but for a warning"),
        pytest.param(f"{ENDED}\nstep 8\n", "", id="it went on"),
        pytest.param("Traceback (most recent call last):\n  File", "", id="cut off before the exception"),
        pytest.param("saving\n", "", id="no traceback"),
        pytest.param(f"{ENDED.rpartition('[rank1]')[0]}KeyboardInterrupt\n", "", id="the answer to SIGINT"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_an_exception_that_nobody_caught_is_the_end_of_all_that_was_said(text: str, words: str) -> None:
    assert traceback_tail(text) == words
