"""Out-of-memory kills, read from a folder of version 1 or 2 of cgroups."""

from pathlib import Path

import pytest

from elasticjob_agent.host.oom import OomCounter, find_folder, may_be_oom


def v2(folder: Path, kills: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"low 0\nhigh 0\nmax 417\noom {kills + 3}\noom_kill {kills}\noom_group_kill 0\n"
    (folder / "memory.events").write_text(text)


def v1(folder: Path, kills: int | None, *, failcnt: int = 99) -> None:
    """`kills` None: a kernel that does not count them."""
    folder.mkdir(parents=True, exist_ok=True)
    counted = "" if kills is None else f"oom_kill {kills}\n"
    (folder / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\n{counted}")
    (folder / "memory.failcnt").write_text(f"{failcnt}\n")


def test_version_2_counts_kills_and_nothing_else(tmp_path: Path) -> None:
    v2(tmp_path, 5)
    assert OomCounter(tmp_path).read() == 5


def test_version_1_counts_kills_however_often_the_limit_was_hit(tmp_path: Path) -> None:
    v1(tmp_path, 2, failcnt=4711)
    assert OomCounter(tmp_path).read() == 2


def test_an_old_kernel_has_only_hits_of_the_limit(tmp_path: Path) -> None:
    v1(tmp_path, None, failcnt=4711)
    assert OomCounter(tmp_path).read() == 4711


@pytest.mark.parametrize("content", ["", "oom_kill\n", "oom_kill many\n", "\x00\xff", "oom_kill -1\n"])
def test_an_invalid_counter_file_has_no_count(content: str, tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text(content)
    assert OomCounter(tmp_path).read() is None


def test_without_a_folder_there_is_no_growth() -> None:
    counter = OomCounter(None)
    counter.take_baseline()
    assert not counter.has_grown()


def test_only_growth_since_the_baseline_is_evidence(tmp_path: Path) -> None:
    v2(tmp_path, 5)
    counter = OomCounter(tmp_path)
    counter.take_baseline()
    assert not counter.has_grown()
    v2(tmp_path, 6)
    assert counter.has_grown()
    counter.take_baseline()
    assert not counter.has_grown()


def test_a_counter_that_appears_later_is_no_growth(tmp_path: Path) -> None:
    counter = OomCounter(tmp_path)
    counter.take_baseline()
    v2(tmp_path, 5)
    assert not counter.has_grown()


def test_a_kill_of_another_process_is_no_evidence(tmp_path: Path) -> None:
    v2(tmp_path, 5)
    counter = OomCounter(tmp_path)
    counter.take_baseline()
    v2(tmp_path, 6)
    counter.attribute_kill()
    assert not counter.has_grown()
    v2(tmp_path, 7)
    assert counter.has_grown()


def test_a_kill_that_the_kernel_has_not_counted_takes_no_evidence_away(tmp_path: Path) -> None:
    v2(tmp_path, 5)
    counter = OomCounter(tmp_path)
    counter.take_baseline()
    counter.attribute_kill()
    v2(tmp_path, 6)
    assert counter.has_grown()


def test_without_a_baseline_a_kill_of_another_process_changes_nothing(tmp_path: Path) -> None:
    v2(tmp_path, 5)
    counter = OomCounter(tmp_path)
    counter.attribute_kill()
    assert not counter.has_grown()


@pytest.mark.parametrize(
    ("exit_code", "message", "expected"),
    [
        (-9, "", True),
        (137, "", True),
        (1, "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", True),
        (1, "", False),
        (-11, "", False),
        (-15, "", False),
    ],
)
def test_exit_code_or_message_shows_a_possible_out_of_memory_kill(
    exit_code: int, message: str, *, expected: bool
) -> None:
    assert may_be_oom(exit_code, message) is expected


def find(tmp_path: Path, proc: str) -> Path | None:
    (tmp_path / "proc").write_text(proc)
    return find_folder(tmp_path / "cgroup", tmp_path / "proc")


def test_version_2_in_a_container_is_at_its_root(tmp_path: Path) -> None:
    v2(tmp_path / "cgroup", 0)
    assert find(tmp_path, "0::/\n") == tmp_path / "cgroup"


def test_version_2_outside_of_a_container_is_at_the_processes_path(tmp_path: Path) -> None:
    v2(tmp_path / "cgroup" / "a" / "b", 0)
    v2(tmp_path / "cgroup", 0)
    assert find(tmp_path, "0::/a/b\n") == tmp_path / "cgroup" / "a" / "b"


def test_a_path_that_the_container_does_not_have_falls_back_to_the_root(tmp_path: Path) -> None:
    v2(tmp_path / "cgroup", 0)
    assert find(tmp_path, "0::/kubepods/pod1\n") == tmp_path / "cgroup"


def test_version_1_is_the_memory_controllers_own_tree(tmp_path: Path) -> None:
    v1(tmp_path / "cgroup" / "memory" / "docker" / "x", 0)
    proc = "12:cpu,cpuacct:/other\n9:memory:/docker/x\n1:name=systemd:/docker/x\n0::/docker/x\n"
    assert find(tmp_path, proc) == tmp_path / "cgroup" / "memory" / "docker" / "x"


@pytest.mark.parametrize("proc", ["", "nonsense", "0::", "9:cpu:/x\n"])
def test_without_a_memory_controller_there_is_no_folder(proc: str, tmp_path: Path) -> None:
    assert find(tmp_path, proc) is None


def test_without_the_proc_file_there_is_no_folder(tmp_path: Path) -> None:
    assert find_folder(tmp_path, tmp_path / "absent") is None
