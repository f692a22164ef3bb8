"""The time of the processors, read from /proc and from folders of version 1 or 2 of cgroups."""

import os
import time
from pathlib import Path

import pytest

from elasticjob_agent.host.cpu import CpuMeter

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def proc(folder: Path, stat: str, *, name: str = "python3", cpu: int = 1) -> Path:
    own = folder / str(os.getpid())
    own.mkdir(parents=True)
    (own / "stat").write_text(f"{os.getpid()} ({name}) S {' '.join(map(str, range(4, 39)))} {cpu} 0 0\n")
    (folder / "stat").write_text(stat)
    return folder


def meter(tmp_path: Path, *candidates: Path, stat: str = "", **fields: object) -> CpuMeter:
    folder = proc(tmp_path / "proc", stat, **fields)  # type: ignore[arg-type]
    return CpuMeter(os.getpid(), candidates=list(candidates), proc=folder)


def test_idle_time_is_that_of_the_processors_that_this_process_may_use(tmp_path: Path) -> None:
    allowed = min(os.sched_getaffinity(0))
    stat = f"cpu  9 9 9 9 9 9\ncpu{allowed} 100 2 30 40 5 6 7 8 0 0\ncpu4711 1 1 1 1 1 1\nintr 1 2 3\n"
    assert meter(tmp_path, stat=stat).read().idle_s == {allowed: pytest.approx(45 * _TICK_S)}


@pytest.mark.parametrize("stat", ["", "cpu0\n", "nonsense"])
def test_a_hidden_file_shows_no_processor(stat: str, tmp_path: Path) -> None:
    assert meter(tmp_path, stat=stat).read().idle_s == {}


@pytest.mark.parametrize("name", ["python3", "a b", "a) S 1 (b"])
def test_the_last_processor_is_found_behind_any_name(name: str, tmp_path: Path) -> None:
    assert meter(tmp_path, name=name, cpu=5).read().last_cpu == 5


def test_version_2_has_a_quota(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\nnr_periods 9\nnr_throttled 3\n")
    reading = meter(tmp_path, tmp_path).read()
    assert (reading.quota, reading.used_s, reading.throttled) == (1.5, 2.5, 3)


def test_version_1_has_a_quota(tmp_path: Path) -> None:
    (tmp_path / "cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpuacct.usage").write_text("2500000000\n")
    (tmp_path / "cpu.stat").write_text("nr_periods 9\nnr_throttled 3\n")
    reading = meter(tmp_path, tmp_path).read()
    assert (reading.quota, reading.used_s, reading.throttled) == (0.5, 2.5, 3)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"cpu.max": "max 100000\n"},
        {"cpu.max": "100000 0\n"},
        {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"},
        {"cpu.cfs_quota_us": "50000\n"},
    ],
)
def test_without_a_quota_all_processors_may_be_used(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert meter(tmp_path, tmp_path).read().quota is None


def test_the_time_of_the_process_is_exact() -> None:
    own = CpuMeter(os.getpid())
    before, began_s = own.read(), time.process_time()
    while time.process_time() - began_s < 0.01:
        pass
    assert own.read().process_s - before.process_s >= 0.01


def test_an_ended_process_cannot_be_read() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    with pytest.raises((ProcessLookupError, FileNotFoundError)):
        CpuMeter(pid).read()
