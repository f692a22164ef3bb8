"""The workers' logs: what is written is what is read."""

from pathlib import Path

import pytest

from elasticjob_api import log_layout


@pytest.mark.parametrize("text", ["loss 0.1", "", "[rank0]: Traceback", "[trainer 3]: loss"])
def test_the_rank_of_a_written_line_is_read(text: str) -> None:
    assert log_layout.split_line(log_layout.line_prefix(12) + text) == (12, text)


@pytest.mark.parametrize("line", ["round 1 begins", "[rank0]: Traceback", "[rank] x", "x [rank1] y", ""])
def test_a_line_without_a_prefix_stays_whole(line: str) -> None:
    assert log_layout.split_line(line) == (None, line)


@pytest.mark.parametrize("line", ["[rank3] [rank3]: oh", "[rank3] oh", "[rank3]: oh", "oh"])
def test_the_prefixes_of_the_agent_and_of_torch_are_removed(line: str) -> None:
    assert log_layout.without_ranks(line) == "oh"


@pytest.mark.parametrize("name", [log_layout.STDOUT_FILE, log_layout.STDERR_FILE])
def test_a_written_log_file_is_found(name: str) -> None:
    path = Path("/logs", log_layout.worker_folder(3, 17), name)
    assert log_layout.parse_log_file(str(path)) == (3, 17, path.stem)
    assert log_layout.round_of(path.parent.parent.name) == 3


def test_a_number_of_more_than_nine_digits_is_no_rank_round_or_code() -> None:
    number = "1" * 5000
    assert log_layout.split_line(f"[rank{number}] x") == (None, f"[rank{number}] x")
    assert log_layout.without_ranks(f"[rank{number}] x") == f"[rank{number}] x"
    assert log_layout.parse_agent_end(f"{log_layout.AGENT_PREFIX}x (exit code {number})") is None
    assert log_layout.parse_log_file(f"round_{number}/0/stdout.log") is None
    assert log_layout.parse_log_file(f"round_0/{number}/stdout.log") is None
    assert log_layout.round_of(f"round_{number}") is None


@pytest.mark.parametrize(
    "path", ["round_3/17/error.json", "round_x/1/stdout.log", "around_3/1/stdout.log", "3/1/stdout.log"]
)
def test_other_files_are_no_log_files(path: str) -> None:
    assert log_layout.parse_log_file(path) is None


@pytest.mark.parametrize("name", ["round_", "round_x", "round_-1", "rounds", "1", "checkpoint"])
def test_other_folders_are_of_no_round(name: str) -> None:
    assert log_layout.round_of(name) is None


def test_the_last_line_of_an_agent_has_its_exit_code() -> None:
    line = f"{log_layout.AGENT_PREFIX}{log_layout.end_message('rank 1 failed (exit code 2)', 120)}\n"
    assert log_layout.parse_agent_end(line) == 120
    assert log_layout.parse_agent_end(f"[rank1] {line}") is None
    assert log_layout.parse_agent_end("elasticjob-agent: joined\n") is None
