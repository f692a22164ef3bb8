"""Destinations of output: folders and tables; an earlier start keeps its files."""

import os
import pickle
import stat
from pathlib import Path

import pytest

from elasticjob_agent.multiprocessing import DefaultLogsSpecs, LogsDest, Std

ENV = "TORCHELASTIC_ERROR_FILE"


def _envs(count: int = 2, **more: str) -> dict[int, dict[str, str]]:
    return {rank: dict(more) for rank in range(count)}


@pytest.mark.parametrize("log_dir", [None, ""])
def test_b_000_04_without_a_folder_one_is_created(
    log_dir: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    root = Path(DefaultLogsSpecs(log_dir).root_log_dir)
    assert root.is_dir()
    assert root.name.startswith("torchelastic_")


def test_b_000_04_a_missing_folder_is_created_with_its_parents(tmp_path: Path) -> None:
    assert Path(DefaultLogsSpecs(str(tmp_path / "a" / "b")).root_log_dir).is_dir()
    (tmp_path / "file").touch()
    DefaultLogsSpecs(str(tmp_path))  # the folder may contain files
    with pytest.raises(NotADirectoryError, match="is a file"):
        DefaultLogsSpecs(str(tmp_path / "file"))


def test_b_000_05_the_layout(tmp_path: Path) -> None:
    envs = _envs(TORCHELASTIC_RUN_ID="run", TORCHELASTIC_RESTART_COUNT="2")
    dest = DefaultLogsSpecs(str(tmp_path), redirects=Std.ALL).reify(envs)
    [run_dir] = tmp_path.iterdir()
    attempt = run_dir / "attempt_2"
    assert run_dir.name.startswith("run_")
    assert dest.stdouts == {rank: str(attempt / str(rank) / "stdout.log") for rank in (0, 1)}
    assert dest.stderrs == {rank: str(attempt / str(rank) / "stderr.log") for rank in (0, 1)}
    assert {rank: env[ENV] for rank, env in envs.items()} == dest.error_files
    assert dest.error_files[1] == str(attempt / "1" / "error.json")
    assert dest.filtered_stdout == str(attempt / "filtered_stdout.log")
    assert [stat.S_ISDIR((attempt / rank).stat().st_mode) for rank in "01"] == [True, True]


def test_b_000_05_defaults_of_run_and_restart(tmp_path: Path) -> None:
    DefaultLogsSpecs(str(tmp_path)).reify(_envs(1))
    [run_dir] = tmp_path.iterdir()
    assert run_dir.name.startswith("test_run_id_")
    assert [path.name for path in run_dir.iterdir()] == ["attempt_0"]


def test_b_000_06_and_k_000_01_an_earlier_start_keeps_its_files(tmp_path: Path) -> None:
    specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT)
    first = specs.reify(_envs(1))
    Path(first.stdouts[0]).write_text("first")
    specs.reify(_envs(1))
    specs.reify(_envs(1))
    specs.reify(_envs(1, TORCHELASTIC_RESTART_COUNT="1"))
    [run_dir] = tmp_path.iterdir()
    assert sorted(path.name for path in run_dir.iterdir()) == ["attempt_0", "attempt_0.1", "attempt_0.2", "attempt_1"]
    assert Path(first.stdouts[0]).read_text() == "first"


FILE, PARENT, NOWHERE = "file", "", os.devnull
ROWS = [
    (False, False, {0}, PARENT, False),
    (False, False, {1}, NOWHERE, False),
    (True, False, {0}, FILE, False),
    (True, False, {1}, FILE, False),
    (False, True, {0}, FILE, True),
    (True, True, {0}, FILE, True),
    (True, True, {1}, FILE, False),
    (False, True, {1}, FILE, False),
    (False, False, set(), PARENT, False),
    (False, True, None, FILE, True),
]


@pytest.mark.parametrize("std", [Std.OUT, Std.ERR])
@pytest.mark.parametrize("row", ROWS)
def test_b_000_07_redirect_tee_and_filter(
    tmp_path: Path, std: Std, row: tuple[bool, bool, set[int] | None, str, bool]
) -> None:
    redirected, teed, allowed, target, shown = row
    specs = DefaultLogsSpecs(
        str(tmp_path),
        redirects=std if redirected else Std.NONE,
        tee=std if teed else Std.NONE,
        local_ranks_filter=allowed,
    )
    dest = specs.reify(_envs(1))
    paths, tees = (dest.stdouts, dest.tee_stdouts) if std is Std.OUT else (dest.stderrs, dest.tee_stderrs)
    assert (paths[0] if target != FILE else Path(paths[0]).name) == (
        target if target != FILE else ("stdout.log" if std is Std.OUT else "stderr.log")
    )
    assert tees == ({0: paths[0]} if shown else {})


def test_b_000_08_devnull_discards_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    envs = _envs(2)
    dest = DefaultLogsSpecs(os.devnull, redirects=Std.ALL, tee=Std.ALL).reify(envs)
    assert dest.stdouts == dest.stderrs == {0: "", 1: ""}
    assert dest.tee_stdouts == dest.tee_stderrs == dest.error_files == {0: os.devnull, 1: os.devnull}
    assert [env[ENV] for env in envs.values()] == ["", ""]
    assert list(tmp_path.iterdir()) == []


def test_b_000_09_equal_by_content_and_unhashable(tmp_path: Path) -> None:
    def specs(**more: object) -> DefaultLogsSpecs:
        return DefaultLogsSpecs(str(tmp_path), redirects={0: Std.OUT}, **more)  # type: ignore[arg-type]

    assert specs() == specs()
    assert specs() != specs(tee=Std.ERR)
    assert specs() != "specs"
    for word in ("root_log_dir", "redirects", "tee", "local_ranks_filter"):
        assert f"{word}=" in repr(specs())
    with pytest.raises(TypeError, match="unhashable"):
        hash(specs())


@pytest.mark.parametrize("run_id", ["a/../b", "..", "/etc", "x" * 500])
def test_b_000_09_a_run_id_cannot_leave_the_root(tmp_path: Path, run_id: str) -> None:
    dest = DefaultLogsSpecs(str(tmp_path)).reify(_envs(1, TORCHELASTIC_RUN_ID=run_id))
    assert Path(dest.error_files[0]).resolve().is_relative_to(tmp_path.resolve())
    assert len(list(tmp_path.iterdir())) == 1


def test_specs_and_destinations_pickle(tmp_path: Path) -> None:
    specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT)
    assert pickle.loads(pickle.dumps(specs)) == specs
    dest = LogsDest(stdouts={0: "a"})
    assert pickle.loads(pickle.dumps(dest)) == dest
