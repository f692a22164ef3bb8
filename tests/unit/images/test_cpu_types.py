"""Images are for the CPU type that they are built for: nothing that goes into one names another."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "images"
CPU_TYPE = re.compile(r"x86.64|amd64|aarch64|i[36]86", re.IGNORECASE)
PINNED = sorted((IMAGES / "requirements").glob("*.txt"))


def recipes() -> list[Path]:
    """All that decides what is in an image."""
    found = [path for path in (*IMAGES.glob("Dockerfile.*"), *(IMAGES / "payload").iterdir()) if path.is_file()]
    return sorted(path for path in found if path.suffix != ".md")


def test_there_is_a_recipe_for_each_image() -> None:
    assert {path.name for path in recipes()} >= {"Dockerfile.agent", "Dockerfile.operator", "pack.py", "launcher.c"}


@pytest.mark.parametrize("path", recipes(), ids=lambda path: path.name)
def test_no_recipe_names_a_cpu_type(path: Path) -> None:
    assert CPU_TYPE.findall(path.read_text()) == []


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_no_pinned_package_is_left_out_on_another_cpu_type(path: Path) -> None:
    assert re.findall(r".*platform_machine.*", path.read_text()) == []


def test_another_platform_is_an_argument_that_must_be_one() -> None:
    command = (IMAGES / "build", "--platform", "arm64", "agent")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "linux/arm64" in done.stderr) == (1, True)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_every_pinned_package_is_there_for_arm64_under_one_of_its_hashes(path: Path, tmp_path: Path) -> None:
    uv = (ROOT / ".venv" / "bin" / "uv", "pip", "install", "--dry-run", "--require-hashes", "--target", tmp_path)
    platform = ("--python-platform", "aarch64-manylinux_2_28", "--python-version", "3.11", "--no-deps")
    # etcd3 is published as source alone, which is Python.
    wheels = ("--only-binary", ":all:", "--no-binary", "etcd3")
    done = subprocess.run(
        (*uv, *platform, *wheels, "-r", path), capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert "Would install" in done.stderr
