"""Folders of logs: one for each round and rank; the newest rounds are kept, and other files are not touched."""

import os
from pathlib import Path

from elasticjob_agent.workers.log_dir import MAX_ROUNDS, prune, worker_logs


def test_each_worker_of_a_round_has_a_folder_of_its_own(tmp_path: Path) -> None:
    files = worker_logs(tmp_path, 3, 7)
    assert files.folder.is_dir()
    paths = [files.stdout, files.stderr, files.error_file]
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "round_3/7/stdout.log",
        "round_3/7/stderr.log",
        "round_3/7/error.json",
    ]


def test_a_second_call_keeps_the_files(tmp_path: Path) -> None:
    worker_logs(tmp_path, 1, 0).stdout.write_text("kept")
    assert worker_logs(tmp_path, 1, 0).stdout.read_text() == "kept"


def test_output_is_what_was_written_since_the_start(tmp_path: Path) -> None:
    first = worker_logs(tmp_path, 1, 0)
    assert not first.has_output(), "there is no file yet"
    first.stdout.write_text("step 1")
    assert first.has_output()
    assert not worker_logs(tmp_path, 1, 0).has_output(), "the output is that of an earlier start"


def test_the_newest_rounds_are_kept_by_number_not_by_name(tmp_path: Path) -> None:
    for round_ in (1, 2, 9, 10, 11, 12):
        worker_logs(tmp_path, round_, 0)
    prune(tmp_path, 12)
    left = {folder.name for folder in tmp_path.iterdir()}
    assert MAX_ROUNDS == 10
    assert left == {"round_9", "round_10", "round_11", "round_12"}


def test_only_old_rounds_are_deleted(tmp_path: Path) -> None:
    for name in ("round_", "round_x", "round_-1", "rounds", "1", "checkpoint"):
        (tmp_path / name).mkdir()
    (tmp_path / "around_1").touch()
    before = sorted(tmp_path.iterdir())
    prune(tmp_path, 1000)
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_folder_is_ignored(tmp_path: Path) -> None:
    prune(tmp_path / "nowhere", 5)
    assert not (tmp_path / "nowhere").exists()


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "7").mkdir(parents=True)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "round_3").symlink_to(elsewhere)
    worker_logs(logs, 3, 7).stdout.write_text("mine")
    assert list((elsewhere / "7").iterdir()) == []
    assert not (logs / "round_3").is_symlink()


def test_links_and_fifos_in_the_place_of_files_are_removed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = worker_logs(tmp_path, 1, 0).folder
    (folder / "stdout.log").symlink_to(victim)
    os.mkfifo(folder / "stderr.log")
    (folder / "error.json").mkdir()
    files = worker_logs(tmp_path, 1, 0)
    for path in (files.stdout, files.stderr, files.error_file):
        assert not path.exists()
        assert not path.is_symlink()
    assert victim.read_text() == "precious"


def test_a_link_named_like_an_old_round_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "round_1").symlink_to(precious)
    prune(logs, 1000)
    assert (precious / "file").exists()
