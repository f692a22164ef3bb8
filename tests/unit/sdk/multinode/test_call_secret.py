"""The sources of a call's secret, and secrets that are refused."""

import stat
from pathlib import Path

import pytest

from elasticjob.multinode.call_secret import find_secret

SECRET = "0123456789abcdef"


def secret_file(path: Path, mode: int = 0o600) -> str:
    path.write_text(f"{SECRET}\n")
    path.chmod(mode)
    return str(path)


def test_an_argument_overrides_the_environment(tmp_path: Path) -> None:
    named = {"ELASTICJOB_CALL_SECRET_FILE": secret_file(tmp_path / "file")}
    environment = {"ELASTICJOB_CALL_SECRET": "of the environment", **named}
    assert find_secret("given by the caller", "head", environment) == "given by the caller"
    assert find_secret(None, "head", environment) == "of the environment"
    assert find_secret(None, "head", named) == SECRET


def test_nodes_on_several_machines_have_no_default_secret() -> None:
    assert find_secret(None, "head", {}) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_on_the_loopback_interface_the_secret_is_a_file_of_this_user(host: str, tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    first = find_secret(None, host, environment)
    (file,) = (tmp_path / "config" / "elasticjob").iterdir()
    assert first is not None
    assert len(first) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert find_secret(None, host, environment) == first


def test_a_read_only_home_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert find_secret(None, "localhost", {"XDG_CONFIG_HOME": str(tmp_path / "file")}) is None
    assert "cannot store a secret for the nodes of this machine in" in caplog.text


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must belong to this user, and no other may read it: chmod 600 "):
        find_secret(None, "head", {"ELASTICJOB_CALL_SECRET_FILE": secret_file(tmp_path / "file", mode)})


def test_a_short_secret_is_refused_with_the_cure() -> None:
    with pytest.raises(
        ValueError, match=r"secret has 5 characters but needs 16: create one with `openssl rand -hex 32`"
    ):
        find_secret("short", "head", {})
