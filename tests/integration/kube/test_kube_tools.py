"""hack/kube-tools: the places that it searches, the programs that it skips, and its errors."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from testing.servers.apiserver import ROOT, Programs
from testing.waiting import scaled

pytestmark = pytest.mark.kube

# The programs that the script needs; a PATH of these alone has neither Go nor any Kubernetes program.
UTILITIES = (
    *("bash", "cat", "cut", "dirname", "env", "flock", "grep", "head", "ln", "mkdir", "mv", "paste", "sed"),
    *("sha256sum", "tail", "timeout"),
)


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    folder = tmp_path / "path"
    folder.mkdir()
    for name in UTILITIES:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    return folder


@pytest.fixture
def assets(tmp_path: Path, programs: Programs) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    for program in (programs.kube_apiserver, programs.kubectl, programs.etcd):
        (folder / program.name).symlink_to(program)
    return folder


def kube_tools(tmp_path: Path, *names: str, path: Path, assets: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script with an empty cache and the given PATH."""
    environment = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    environment |= {"PATH": str(path), "ELASTICJOB_CACHE": str(tmp_path / "cache")}
    if assets is not None:
        environment["KUBEBUILDER_ASSETS"] = str(assets)
    command = [str(ROOT / "hack" / "kube-tools"), *names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=scaled(60))


def stand_in(folder: Path, line: str, *, name: str = "kubectl", exit_code: int = 0) -> Path:
    """Write a program that prints one line and exits; return its path."""
    program = folder / name
    program.write_text(f"#!/usr/bin/env bash\necho '{line}'\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


def test_the_assets_folder_comes_first_and_paths_are_for_machines_to_read(
    tmp_path: Path, bare_path: Path, assets: Path
) -> None:
    stand_in(bare_path, "Client Version: v1.34.9")
    done = kube_tools(tmp_path, path=bare_path, assets=assets)
    names = {"KUBE_APISERVER": "kube-apiserver", "KUBECTL": "kubectl", "ETCD": "etcd"}
    assert done.stdout == "".join(f"{variable}={assets / name}\n" for variable, name in names.items())


def test_then_comes_the_path(tmp_path: Path, bare_path: Path) -> None:
    stand_in(bare_path, "Client Version: v1.34.9")
    assert kube_tools(tmp_path, "kubectl", path=bare_path).stdout == f"KUBECTL={bare_path / 'kubectl'}\n"


def test_then_comes_the_cache(tmp_path: Path, bare_path: Path) -> None:
    cached = tmp_path / "cache" / "bin"
    cached.mkdir(parents=True)
    stand_in(cached, "Client Version: v1.34.9")
    assert kube_tools(tmp_path, "kubectl", path=bare_path).stdout == f"KUBECTL={cached / 'kubectl'}\n"


@pytest.mark.parametrize(
    ("version_line", "said"),
    [
        pytest.param(
            "Client Version: v1.34.4-dispatcher", "it reports the version '1.34.4-dispatcher'", id="dispatcher"
        ),
        pytest.param("Client Version: v1.20.0", "it is 1.20.0, and the tests need 1.33 or newer", id="old"),
        pytest.param("what?", "it reports the version ''", id="silent"),
    ],
)
def test_an_unsuitable_program_is_skipped(tmp_path: Path, bare_path: Path, version_line: str, said: str) -> None:
    stand_in(bare_path, version_line)
    done = kube_tools(tmp_path, "kubectl", path=bare_path)
    assert f"kube-tools: passing over {bare_path / 'kubectl'}: {said}" in done.stderr
    assert done.returncode == 1


def test_programs_from_setup_envtest_are_found_in_the_cache_afterwards(
    tmp_path: Path, bare_path: Path, assets: Path
) -> None:
    go = stand_in(bare_path, str(assets), name="go")
    first = kube_tools(tmp_path, "kubectl", path=bare_path)
    go.unlink()
    again = kube_tools(tmp_path, "kubectl", path=bare_path)
    assert first.stdout == again.stdout == f"KUBECTL={tmp_path / 'cache' / 'bin' / 'kubectl'}\n"


def test_a_failed_build_shows_the_output_of_go(tmp_path: Path, bare_path: Path) -> None:
    stand_in(bare_path, "module not available", name="go", exit_code=1)
    done = kube_tools(tmp_path, "kubectl", path=bare_path)
    assert done.returncode == 1
    assert "no download" in done.stderr
    assert "module not available" in done.stderr
    assert "could not build kubectl" in done.stderr


def test_the_error_without_programs_and_go_names_the_cure(tmp_path: Path, bare_path: Path) -> None:
    done = kube_tools(tmp_path, path=bare_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no Go to get one with: install Go 1.24 or newer, or set KUBEBUILDER_ASSETS" in done.stderr
