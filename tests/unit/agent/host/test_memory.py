"""The memory of a container, read from folders of version 1 or 2 of cgroups, and of a process."""

import os
import resource
from pathlib import Path

import pytest

from elasticjob_agent.host.memory import (
    MemoryMeter,
    MemoryUsage,
    is_first_to_go,
    private_bytes,
    share_of_process,
)

MIB = 1 << 20


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a /proc of a machine with 1,000 MiB, of which 600 are available."""
    (tmp_path / "proc").mkdir()
    text = f"MemTotal:       {1000 << 10} kB\nMemFree:          1 kB\nMemAvailable:   {600 << 10} kB\n"
    (tmp_path / "proc" / "meminfo").write_text(text)
    return tmp_path / "proc"


def v2(folder: Path, *, limit: str, used: int, files: int) -> list[Path]:
    folder.mkdir()
    (folder / "memory.max").write_text(limit + "\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\nfile {files}\ninactive_file {files - MIB}\nactive_file {MIB}\n")
    return [folder]


def v1(folder: Path, *, limit: int, used: int, files: int) -> list[Path]:
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    stat = f"inactive_file 0\nactive_file 0\ntotal_inactive_file {files - MIB}\ntotal_active_file {MIB}\n"
    (folder / "memory.stat").write_text(stat)
    return [folder]


def test_version_2_has_a_limit_and_drops_pages_of_files(tmp_path: Path, proc: Path) -> None:
    folders = v2(tmp_path / "c", limit=str(500 * MIB), used=300 * MIB, files=100 * MIB)
    assert MemoryMeter(folders, proc).read() == MemoryUsage(total=500 * MIB, left=300 * MIB)


def test_a_pod_that_is_slowed_down_above_a_limit_has_that_limit(tmp_path: Path, proc: Path) -> None:
    folders = v2(tmp_path / "c", limit=str(500 * MIB), used=300 * MIB, files=100 * MIB)
    (tmp_path / "c" / "memory.high").write_text(f"{400 * MIB}\n")
    assert MemoryMeter(folders, proc).read() == MemoryUsage(total=400 * MIB, left=200 * MIB)


def test_version_1_has_a_limit_and_drops_pages_of_files(tmp_path: Path, proc: Path) -> None:
    folders = v1(tmp_path / "c", limit=500 * MIB, used=300 * MIB, files=100 * MIB)
    assert MemoryMeter(folders, proc).read() == MemoryUsage(total=500 * MIB, left=300 * MIB)


def test_without_a_limit_the_machine_counts(tmp_path: Path, proc: Path) -> None:
    machine = MemoryUsage(total=1000 * MIB, left=600 * MIB)
    assert MemoryMeter(v2(tmp_path / "2", limit="max", used=300 * MIB, files=MIB), proc).read() == machine
    assert MemoryMeter(v1(tmp_path / "1", limit=2**63 - 4096, used=MIB, files=MIB), proc).read() == machine
    assert MemoryMeter([], proc).read() == machine


def test_a_machine_with_less_than_the_limit_counts(tmp_path: Path, proc: Path) -> None:
    folders = v2(tmp_path / "c", limit=str(900 * MIB), used=100 * MIB, files=MIB)
    assert MemoryMeter(folders, proc).read() == MemoryUsage(total=900 * MIB, left=600 * MIB)


def test_a_folder_without_the_controller_is_left_out(tmp_path: Path, proc: Path) -> None:
    (tmp_path / "empty").mkdir()
    folders = [tmp_path / "empty", *v2(tmp_path / "c", limit=str(500 * MIB), used=300 * MIB, files=MIB)]
    assert MemoryMeter(folders, proc).read() == MemoryUsage(total=500 * MIB, left=201 * MIB)


@pytest.mark.parametrize("text", ["", "MemTotal: 1000 kB\n", "MemTotal: many kB\nMemAvailable: 1 kB\n"])
def test_a_machine_that_hides_its_memory_has_none_to_show(text: str, tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(text)
    assert MemoryMeter([], tmp_path).read() is None


def test_a_process_has_a_share_and_private_pages() -> None:
    page_bytes = resource.getpagesize()
    assert MIB < share_of_process(os.getpid()) < 1 << 34
    before = private_bytes(os.getpid(), page_bytes)
    block = bytearray(b"x") * (64 * MIB)
    assert private_bytes(os.getpid(), page_bytes) - before > 32 * MIB
    del block


def test_an_ended_process_has_no_memory(tmp_path: Path) -> None:
    assert share_of_process(1, tmp_path) == 0
    assert private_bytes(1, 4096, tmp_path) == 0
    assert not is_first_to_go(1, tmp_path)


@pytest.mark.parametrize(("score", "expected"), [("1000\n", True), ("986\n", False), ("-997\n", False)])
def test_the_highest_score_goes_first(score: str, tmp_path: Path, *, expected: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "oom_score_adj").write_text(score)
    assert is_first_to_go(7, tmp_path) is expected
