"""The program of the init container, besides the cases of test_takeover.py: its end, repetitions, and failures."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_etcd import auth_bootstrap
from testing.waiting import eventually, scaled

pytestmark = pytest.mark.etcd

_END_S = 60.0


@pytest.fixture
def flags(etcd_program: str, tmp_path: Path) -> list[str]:
    """Return flags of an etcd with one member that no other dials."""
    peer = "http://127.0.0.1:0"
    return [
        *(etcd_program, f"--data-dir={tmp_path}/data", f"--listen-peer-urls={peer}", "--unsafe-no-fsync"),
        *(f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"),
        "--advertise-client-urls=https://etcd.example:2379",
    ]


def start(*command: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    line = [sys.executable, "-m", auth_bootstrap.__name__, *options, "--", *command]
    return subprocess.Popen(line, stderr=subprocess.PIPE, text=True)


def ended(*command: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    process = start(*command, options=options)
    said = process.communicate(timeout=scaled(_END_S))[1]
    return process.returncode, said


def test_data_with_authentication_remain_unchanged(flags: list[str]) -> None:
    for _ in range(2):
        code, said = ended(*flags)
        assert code == 0
        assert said.endswith("elasticjob-agent --enable-auth: authentication is enabled\n")


def test_an_etcd_that_does_not_start_is_a_failure_with_one_message(flags: list[str]) -> None:
    code, said = ended(*flags, "--no-such-flag")
    assert code == 1
    assert "authentication could not be enabled in etcd's data: etcd ended with code " in said
    assert "Traceback" not in said


def test_a_missing_program_is_a_failure_with_one_message() -> None:
    code, said = ended("/no/such/etcd")
    assert code == 1
    assert said.count("\n") == 1
    assert "No such file or directory: '/no/such/etcd'" in said


def test_a_signal_ends_it_and_its_etcd(flags: list[str], tmp_path: Path) -> None:
    no_leader = [flag.replace("default=", "other=http://127.0.0.1:1,default=") for flag in flags]
    process = start(*no_leader)
    eventually((tmp_path / "data" / "member" / "wal").exists, within_s=_END_S, what="etcd at work")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=scaled(_END_S))[1].endswith("stopped by a signal\n")
    assert process.returncode == 1
    lock = tmp_path / "data" / "member" / "snap" / "db"
    assert not [process for process in Path("/proc").iterdir() if str(lock) in _open_files(process)]


def test_without_a_majority_it_ends_after_its_timeout_with_one_message(flags: list[str]) -> None:
    no_leader = [flag.replace("default=", "other=http://127.0.0.1:1,default=") for flag in flags]
    code, said = ended(*no_leader, options=("--timeout=1",))
    assert code == 1
    assert said.endswith("enabled in etcd's data: no majority of its members answered within 1 s\n")


def _open_files(process: Path) -> list[str]:
    try:
        return [str(file.readlink()) for file in (process / "fd").iterdir()]
    except OSError:
        return []
