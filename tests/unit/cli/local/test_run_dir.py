"""The folder of a run."""

import stat
from pathlib import Path

import pytest

from elasticjob_cli.errors import RunFolderError
from elasticjob_cli.local.run_dir import default_path, make_run_dir
from elasticjob_cli.local.run_snapshot import write_resource


def test_the_default_names_job_and_time() -> None:
    assert default_path("digits", time_utc="20250101T000000Z", short_id="ab12") == Path(
        "runs/digits-20250101T000000Z-ab12"
    )


def test_all_parts_lie_inside(tmp_path: Path) -> None:
    folder = make_run_dir(tmp_path / "a" / "b")
    parts = (folder.etcd, folder.pods, folder.host, folder.logs, folder.log, folder.resource)
    assert {part.parent for part in parts} == {tmp_path / "a" / "b"}


def test_no_other_user_of_this_machine_can_read_it(tmp_path: Path) -> None:
    folder = make_run_dir(tmp_path / "a" / "b")
    write_resource(folder, {"kind": "ElasticJob"})
    made = (folder.path, folder.pods, folder.host, folder.logs, folder.log, folder.resource)
    assert {stat.S_IMODE(part.stat().st_mode) & 0o077 for part in made} == {0}


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    assert make_run_dir(tmp_path).path == tmp_path


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(RunFolderError, match="is not empty; name a new folder with --run-dir"):
        make_run_dir(tmp_path)


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="cannot be created or written: Not a directory; name another folder"):
        make_run_dir(tmp_path / "file" / "run")
