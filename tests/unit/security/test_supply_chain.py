"""Builds use pinned inputs only, and running programs fetch nothing."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("api", "etcd", "agent", "operator", "cli", "sdk")
PINNED = sorted([*ROOT.glob("requirements/*.txt"), *ROOT.glob("images/requirements/*.txt")])
RECIPES = sorted(ROOT.glob("images/Dockerfile.*"))
SCRIPTS = [path for path in sorted(ROOT.glob("hack/*")) if path.is_file() and path.read_bytes().startswith(b"#!")]

FETCHERS = {"urllib.request", "http.client", "requests", "aiohttp", "httpx", "urllib3", "ftplib", "pip"}
SPEAKS_HTTP = {
    "operator/elasticjob_operator/cluster/responses.py",  # reads what connection.py has asked
    "operator/elasticjob_operator/cluster/connection.py",  # to the API server
    "operator/elasticjob_operator/cluster/sockets.py",  # opens the connections of connection.py
    "operator/elasticjob_operator/ui/server.py",  # is asked
    "operator/elasticjob_operator/probes.py",  # is asked
}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PINNED, ids=short)
def test_every_package_is_pinned_with_its_hashes(path: Path) -> None:
    stated = re.sub(r"^\s*#.*$", "", path.read_text().replace("\\\n", " "), flags=re.MULTILINE)
    lines = [line for line in stated.splitlines() if line.strip()]
    assert lines
    loose = [line for line in lines if not re.match(r"[\w.\[\]-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)]
    assert loose == []


@pytest.mark.parametrize("path", RECIPES, ids=short)
def test_images_install_what_is_pinned_and_the_wheel_that_was_built(path: Path) -> None:
    installs = re.findall(r"pip .*?install (.*)", path.read_text())
    assert [line for line in installs if not line.startswith(("--require-hashes -r ", "--no-deps /dist/"))] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=short)
def test_go_programs_are_of_one_version(path: Path) -> None:
    text = path.read_text()
    assert "@latest" not in text
    got = re.findall(r"go (?:install|get|run)(?: -tool)? \"?([^\s\"]+)", text)
    assert [module for module in got if "/" in module and "@" not in module and "$" not in module] == []


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_nothing_that_runs_can_fetch_anything() -> None:
    """Only the operator uses HTTP, to the API server; all else is gRPC to the named etcd, or a link."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(files) > 200
    fetching = {short(path) for path in files if imported(path) & FETCHERS}
    assert fetching == SPEAKS_HTTP
