"""The lines of each round, the form of a line, and the log files of a run."""

import argparse
from pathlib import Path

import pytest

from elasticjob import LogLine
from elasticjob_cli.local import logs
from elasticjob_cli.target import JobTarget
from elasticjob_cli.views.job_history import JobHistory, job_history
from elasticjob_cli.views.log_lines import NoSuchRound, last, require_failure, shown, span_of
from tests.unit.cli.recorded import FAILURE, NOW_S, a_job, a_round


def history() -> JobHistory:
    rounds = [a_round(1, -90, -40, "0-1"), a_round(2, -39.9, -20, "0-1"), a_round(3, -10, None, "0-1")]
    return job_history(a_job(rounds=rounds), [], now_s=NOW_S)


def test_rounds_share_no_line_and_lose_none() -> None:
    first, second, third = (span_of(history(), number) for number in (1, 2, 3))
    assert first == (float("-inf"), second[0])
    assert second[1] == third[0] == NOW_S - 10.5
    assert third[1] == float("inf")
    assert NOW_S - 40 < second[0] < NOW_S - 39.9


def test_the_round_before_the_last_is_the_previous_one() -> None:
    assert span_of(history(), None) == span_of(history(), 2)


def test_an_unknown_round_is_reported_with_the_known_ones() -> None:
    with pytest.raises(NoSuchRound, match="the history of digits has no round 7; it has 1, 2, 3"):
        span_of(history(), 7)
    with pytest.raises(NoSuchRound, match="no round before the current one"):
        span_of(job_history(a_job(), [], now_s=NOW_S), None)


def test_the_last_lines_are_those_of_each_rank_or_pod_in_their_order() -> None:
    lines = [
        LogLine("b" if rank == 2 else "a", rank, text, "") for rank, text in [(0, "1"), (1, "2"), (2, "3"), (0, "4")]
    ]
    assert [line.text for line in last(iter(lines), 1, by_rank=True)] == ["2", "3", "4"]
    assert [line.text for line in last(iter(lines), 1, by_rank=False)] == ["3", "4"]
    assert [line.text for line in last(iter(lines), 0, by_rank=True)] == []
    assert [*last(iter(lines), None, by_rank=True)] == lines


def test_the_place_of_the_last_failure_is_read_from_the_status() -> None:
    assert require_failure(a_job(lastFailure=FAILURE)).pod_name == "digits-1-abcde"
    with pytest.raises(NoSuchRound, match="digits has no failed worker"):
        require_failure(a_job())


@pytest.mark.parametrize(
    ("rank", "alone", "line"), [(3, False, "[rank3] x"), (None, False, "[pod] x"), (3, True, "x"), (None, True, "x")]
)
def test_a_line_begins_with_its_rank_or_pod_unless_only_one_is_requested(
    rank: int | None, line: str, *, alone: bool
) -> None:
    assert shown(rank, "pod", "x", alone=alone, time="", colour=False) == line


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run of two ranks in two rounds."""
    for number in (1, 2):
        for rank in (0, 1):
            folder = tmp_path / f"pods/digits-{rank}-x/volumes/elasticjob-logs/round_{number}/{rank}"
            folder.mkdir(parents=True)
            (folder / "stdout.log").write_text(f"a{rank} of {number}\nb{rank} of {number}\n")
    return tmp_path


def lines(run: Path, **options: object) -> list[str]:
    given = {"rank": [], "round": None, "previous": False, "failed": False, **options}
    failure = {**FAILURE, "rank": 1}
    found = logs.select_files(run, JobTarget(a_job(lastFailure=failure), ()), argparse.Namespace(**given))
    return [line for file in found for line in logs.lines(file, 1)]


def test_the_last_round_of_a_run_is_shown_and_others_on_request(run: Path) -> None:
    assert lines(run) == ["b0 of 2", "b1 of 2"]
    assert lines(run, previous=True, rank=[0]) == ["b0 of 1"]
    assert lines(run, round=1, rank=[1]) == ["b1 of 1"]
    assert lines(run, failed=True) == ["b1 of 1"]


def test_a_missing_log_of_a_run_is_reported_with_the_existing_ones(run: Path) -> None:
    with pytest.raises(NoSuchRound, match="it has rounds 1, 2; ranks 0 to 1"):
        lines(run, rank=[7])


def test_the_only_worker_of_a_node_has_written_to_the_log_of_its_pod(tmp_path: Path) -> None:
    for path, text in (
        ("pods/j-0-x/volumes/elasticjob-logs/round_1/0/stderr.log", ""),
        ("logs/j-0-x/t/stdout.log", "hi\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    job = {"spec": {"template": {"spec": {"containers": [{"name": "t", "image": "i"}]}}}}
    (error, output) = logs.files(tmp_path, job)
    assert (error.stream, error.is_the_pods) == ("stderr", False)
    assert (output.stream, output.is_the_pods, [*logs.lines(output, None)]) == ("stdout", True, ["hi"])
