"""From a clean checkout to the renamed tree, as commits: moves, identifiers, what follows from both."""

import subprocess
import sys

from hack.rename import names
from hack.rename.text import ROOT, run

_PACKAGES = {
    "api": "modules have the words of the field",
    "etcd": "modules have the words of the field; the in-memory etcd is a package",
    "agent": "modules move into packages",
    "operator": "modules move into packages",
    "sdk": "modules have the words of the field; nodes becomes multinode",
    "cli": "modules have the words of the field; all of a local run is in local/",
    "testing": "helpers of tests move out of tests/",
    "benchmarks": "modules move into packages",
    "hack": "generators of the reference are Python modules",
}
_MOVES = """\
A folder says what its modules may import and what they are about.
Only files move here: imports, paths in texts and names of modules follow. Identifiers stay until the next commits.
hack/rename did it, by modules.toml."""
_NAMES = ("etcd", "agent", "operator", "api", "sdk", "cli", "tests", "benchmarks")
"""The agent before api: a name that it gives up is one that a record of api takes."""
_IDENTIFIERS = """\
A reader can look each of them up: they are words of Kubernetes, etcd and torch, or say what a function does.
Nothing else changes: records keep their names in etcd and in JSON. hack/rename did it, by names.toml."""


def main() -> int:
    """Make the commits; return make's exit status of `make lint`. With the argument `names` all has moved already."""
    if _git("status", "--porcelain"):
        sys.exit("commit first")
    if "names" not in sys.argv:
        _moves()
    for section, files in names.in_turn(_NAMES):
        for name, text in files.items():
            (ROOT / name).write_text(text)
        _tidy()
        _commit(f"{section}: identifiers have the words of the field", _IDENTIFIERS)
    _follow_ups()
    return subprocess.run(["make", "lint"], cwd=ROOT, check=False).returncode


def _moves() -> None:
    for section, subject in _PACKAGES.items():
        _step("moves", section)
        _tidy()
        _commit(f"{section}: {subject}", _MOVES)
    _step("wire")
    _tidy()
    _commit("api: fields of records have their names outside explicitly", _WIRE)


_WIRE = """\
Fields of records are about to be renamed, and what is in etcd, in pods and in the ElasticJob must not change.
The golden records find their classes by a table of the names that they were written with."""


def _follow_ups() -> None:
    _step("contracts")
    _tidy()
    _commit("pyproject: import-linter's contracts are about packages", _CONTRACTS)
    _step("documents")
    run("make", "reference")
    subprocess.run(["hack/prose-lint", "--update"], cwd=ROOT, check=False)  # make lint shows what is above it
    _commit("docs: pages name modules and identifiers as they are called", _DOCUMENTS)


_CONTRACTS = """\
A folder is a layer: a module that comes to it is held to its contract without another line.
The imports that break a layer are listed, each with its cure."""
_DOCUMENTS = """\
The developers' pages cite identifiers between backticks, and tests look whether each is there.
The reference is generated anew, and the baseline of prose-lint is sorted by the new paths."""


def _step(*arguments: str) -> None:
    """Run a step in a process of its own: this one knows where modules are only once they have moved."""
    run(sys.executable, "-m", "hack.rename", *arguments)


def _tidy() -> None:
    ruff = str(ROOT / ".venv" / "bin" / "ruff")
    run(ruff, "check", "--quiet", "--fix-only", "--select", "I,RUF022", ".")
    run(ruff, "format", "--quiet", ".")


def _commit(subject: str, body: str) -> None:
    run("git", "add", "--all")
    if _git("status", "--porcelain"):
        run("git", "commit", "--quiet", "-m", subject, "-m", body)
        print(_git("log", "-1", "--format=%h %s", "--shortstat"), flush=True)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
