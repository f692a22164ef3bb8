"""The line of stderr with the reason why a worker ended."""

import pytest

from elasticjob_agent.workers.error_message import MAX_CHARACTERS, error_line, traceback_tail

ENDED = """[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 7, in <module>
[rank1]:     dist.all_reduce(x)
[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:36413"""
REASON = "[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:36413"


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
    assert error_line(f"{ENDED}\n{after}") == REASON


@pytest.mark.parametrize(
    "line",
    [
        "no more data",
        "[rank1]:[E1121 15:11:25.123456789 ProcessGroupNCCL.cpp:632] Watchdog caught collective operation timeout",
        "train.py: error: --lr must be positive",
        "UserWarning: turned into an error",
    ],
)
def test_a_line_that_is_not_a_mere_warning_counts(line: str) -> None:
    assert error_line(f"{ENDED}\n{line}\n") == line


def test_a_warning_counts_if_there_is_no_other_line() -> None:
    assert error_line("x.py:3: FutureWarning: gone soon\n") == "x.py:3: FutureWarning: gone soon"
    assert error_line("\n") == ""


def test_a_long_line_is_cut() -> None:
    assert error_line("y" * 5000) == "y" * MAX_CHARACTERS


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        pytest.param(f"step 7\n{ENDED}\n", REASON.removeprefix("[rank1]: "), id="a traceback at the very end"),
        pytest.param(
            f"{ENDED}\nx.py:3: UserWarning: leaked\n", REASON.removeprefix("[rank1]: "), id="only a warning follows"
        ),
        pytest.param(f"{ENDED}\nstep 8\n", "", id="more output follows"),
        pytest.param("Traceback (most recent call last):\n  File", "", id="cut off before the exception"),
        pytest.param("saving\n", "", id="no traceback"),
        pytest.param(f"{ENDED.rpartition('[rank1]')[0]}KeyboardInterrupt\n", "", id="the exception of SIGINT"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_an_uncaught_exception_is_the_end_of_the_text(text: str, exception: str) -> None:
    assert traceback_tail(text) == exception
