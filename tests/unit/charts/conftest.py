"""Fixtures: the chart rendered by a real helm, which hack/kube-tools finds or builds; no cluster."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "elasticjob"
NAMESPACE = "somewhere"

_BUILD_S = 900.0
"""Helm may have to be built from its source, once."""

Object = dict[str, Any]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Render = Callable[..., list[Object]]


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program."""
    command = (ROOT / "hack" / "kube-tools", "helm")
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_BUILD_S).stdout
    return Path(found.strip().removeprefix("HELM="))


@pytest.fixture(scope="session")
def template(helm: Path) -> Run:
    """Run `helm template` with these values, given as `--set` takes them."""

    def run(*values: str, options: tuple[str, ...] = (), release: str = "elasticjob", chart: Path = CHART) -> Any:
        sets: list[str] = [word for value in values for word in ("--set", value)]
        command = [str(helm), "template", release, str(chart), "--namespace", NAMESPACE, *sets, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture(scope="session")
def render(template: Run) -> Render:
    """The objects of a release with these values."""

    def run(
        *values: str, options: tuple[str, ...] = (), release: str = "elasticjob", chart: Path = CHART
    ) -> list[Object]:
        done = template(*values, options=options, release=release, chart=chart)
        assert done.returncode == 0, done.stderr
        return [found for found in yaml.safe_load_all(done.stdout) if found]

    return run


def only(objects: list[Object], kind: str, name: str = "") -> Object:
    """The one object of this kind, of those whose name ends so."""
    [found] = [found for found in objects if found["kind"] == kind and found["metadata"]["name"].endswith(name)]
    return found


def kinds(objects: list[Object]) -> set[str]:
    """Return the kinds of the objects."""
    return {found["kind"] for found in objects}


def container(owner: Object) -> Object:
    """The one container of a workload."""
    [found] = owner["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found
