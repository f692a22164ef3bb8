"""Folders of logs: one per round and rank, the newest rounds kept, nothing else touched."""

from pathlib import Path

from elasticjob_agent.logs import KEPT_ROUNDS, prune, worker_logs


def test_each_worker_of_a_round_has_a_folder_of_its_own(tmp_path: Path) -> None:
    files = worker_logs(tmp_path, 3, 7)
    assert files.folder.is_dir()
    paths = [files.stdout, files.stderr, files.error_file]
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "round_3/7/stdout.log",
        "round_3/7/stderr.log",
        "round_3/7/error.json",
    ]


def test_asking_twice_keeps_what_was_written(tmp_path: Path) -> None:
    worker_logs(tmp_path, 1, 0).stdout.write_text("kept")
    assert worker_logs(tmp_path, 1, 0).stdout.read_text() == "kept"


def test_the_newest_rounds_are_kept_by_number_not_by_name(tmp_path: Path) -> None:
    for round_ in (1, 2, 9, 10, 11, 12):
        worker_logs(tmp_path, round_, 0)
    prune(tmp_path, 12)
    left = {folder.name for folder in tmp_path.iterdir()}
    assert KEPT_ROUNDS == 10
    assert left == {"round_9", "round_10", "round_11", "round_12"}


def test_nothing_but_old_rounds_is_ever_deleted(tmp_path: Path) -> None:
    for name in ("round_", "round_x", "round_-1", "rounds", "1", "checkpoint"):
        (tmp_path / name).mkdir()
    (tmp_path / "around_1").touch()
    before = sorted(tmp_path.iterdir())
    prune(tmp_path, 1000)
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_is_not_there_is_no_matter(tmp_path: Path) -> None:
    prune(tmp_path / "nowhere", 5)
    assert not (tmp_path / "nowhere").exists()
