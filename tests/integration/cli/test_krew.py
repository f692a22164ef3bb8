"""`kubectl elasticjob` from krew: krew accepts the manifest, and the archive is a plugin that runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testing.servers.apiserver import Programs
from testing.waiting import scaled

pytestmark = [pytest.mark.kube, pytest.mark.nightly, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[3]
URI = "https://example.invalid/kubectl-elasticjob.tar.gz"
_LIMIT_S = 600.0


def done(*command: object, **environ: str) -> str:
    """Return the output of a program that must succeed."""
    ended = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=scaled(_LIMIT_S),
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Return the folder with the archive and the manifest of a release."""
    done(sys.executable, ROOT / "hack" / "krew" / "build.py", URI, tmp_path / "release")
    return tmp_path / "release"


@pytest.fixture(scope="session")
def tools() -> Path:
    """Return the folder of krew."""
    return Path(done(ROOT / "hack" / "krew" / "tools").splitlines()[-1])


def test_krew_accepts_the_manifest(release: Path, tools: Path) -> None:
    output = done(tools / "validate-krew-manifest", "-manifest", release / "elasticjob.yaml", "-skip-install")
    assert "structural validation OK" in output


def test_krew_installs_a_plugin_of_kubectl(release: Path, tools: Path, programs: Programs, tmp_path: Path) -> None:
    krew = {"KREW_ROOT": str(tmp_path / "krew"), "HOME": str(tmp_path)}
    (archive,) = release.glob("*.tar.gz")
    done(tools / "krew", "install", f"--manifest={release / 'elasticjob.yaml'}", f"--archive={archive}", **krew)
    python = shutil.which(f"python3.{sys.version_info.minor}", path=f"{sys.base_prefix}/bin")
    assert python
    path = os.pathsep.join((str(tmp_path / "krew" / "bin"), str(Path(python).parent), "/usr/bin", "/bin"))
    assert done(programs.kubectl, "elasticjob", "version", "--long", PATH=path).startswith("elasticjob ")
    assert "name: elasticjobs.elasticjob.io" in done(programs.kubectl, "elasticjob", "crd", PATH=path)
