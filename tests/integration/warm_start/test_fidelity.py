"""A worker that is started warm is the same program: the fidelity matrix, through the real supervisor and starter.

Each case runs cold, as the worker that records its imports, and warm. Exit code, stdout, stderr and a file are compared
byte for byte. The only differences that are allowed are those of `DIFFERENCES`, which docs/warm-start.md repeats.
"""

import sys
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import Supervisor
from testing.processes.census import MARKER, Census
from testing.pythons import need_python
from tests.integration.warm_start.fidelity import DIFFERENCES, KINDS, OTHER_DIFFERENCES, Case, Matrix
from tests.integration.warm_start.programs import PROGRAMS
from tests.integration.warm_start.warm_node import clean_environment

_PROBES = [
    Case("probe", ("probe.py", "a", "b c", "")),
    Case("probe with options", ("-u", "-O", "-X", "faulthandler", "-W", "error", "probe.py")),
    Case("probe with more options", ("-X", "utf8", "-W", "ignore::DeprecationWarning", "-B", "-s", "probe.py")),
    Case("probe in development mode", ("-X", "dev", "-b", "-q", "probe.py")),
    Case("probe as a module", ("-m", "pkg.probe", "a")),
    Case("probe into files", ("probe.py",), to_file=True),
    Case("probe with PYTHONPATH", ("probe.py",), {"PYTHONPATH": "pkg:/nowhere"}),
    Case("probe with an empty PYTHONPATH", ("probe.py",), {"PYTHONPATH": ""}),
    Case("probe with empty entries in PYTHONPATH", ("probe.py",), {"PYTHONPATH": ":pkg:"}),
    Case("probe with a sitecustomize", ("probe.py",), {"PYTHONPATH": "own"}),
    Case("probe with LC_ALL=C", ("probe.py",), {"LC_ALL": "C"}),
    Case("probe in another time zone", ("probe.py",), {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1"}),
]
_COMMANDS = [
    Case("package as a module", ("-m", "pkg", "z")),
    Case("module with an error", ("-m", "pkg.part")),
    Case("program as a module", ("-m", "exc")),
    Case("missing module", ("-m", "nothing.here")),
    Case("missing file", ("nothing.py",)),
    Case("folder", ("archived", "q")),
    Case("archive", ("app.zip", "q")),
    Case("command", ("-c", "import json, sys; print(sys.argv, sys.path[0], __name__, list(globals())); 1/0", "x")),
    Case("script that names its Python", ("./named.py", "a"), is_script=True),
    Case("encoding of POSIX", ("encoding.py",), {"LC_ALL": "POSIX", "PYTHONIOENCODING": "latin1:replace"}),
]
CASES = [*_PROBES, *_COMMANDS, *(Case(name, (name,)) for name in PROGRAMS)]
_PAGE = Path(__file__).parents[3] / "docs/warm-start.md"
_OTHER_VERSIONS = ("3.8", "3.9", "3.10", "3.12", "3.13")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_warm_worker_is_the_same_program(
    case: Case, supervisor: Supervisor, census: Census, tmp_path: Path
) -> None:
    await _check(case, "3.11", supervisor, census, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("version", _OTHER_VERSIONS)
async def test_a_warm_worker_is_the_same_program_on_other_pythons(
    case: Case, version: str, supervisor: Supervisor, census: Census, tmp_path: Path
) -> None:
    await _check(case, version, supervisor, census, tmp_path)


def test_the_page_has_every_allowed_difference() -> None:
    page = " ".join(_PAGE.read_text().split())
    sentences = [*OTHER_DIFFERENCES, *(each for listed in DIFFERENCES.values() for each in listed.values())]
    assert [each for each in sentences if each not in page] == []


async def test_every_allowed_difference_is_one(supervisor: Supervisor, census: Census, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    matrix = Matrix(supervisor, folder, clean_environment({MARKER: census.token}), sys.executable)
    outcomes = await matrix.run(CASES[0])
    for kind, listed in DIFFERENCES.items():
        cold, other = outcomes["cold"].observed(), outcomes[kind].observed()
        assert [name for name in listed if cold[name] == other[name]] == []


async def _check(case: Case, version: str, supervisor: Supervisor, census: Census, tmp_path: Path) -> None:
    python = need_python(version)
    if version == "3.8" and "dev" in case.words:
        pytest.skip("Python 3.8 crashes at the end of a forked process in development mode, so it starts cold")
    folder = tmp_path / "work"
    folder.mkdir()
    outcomes = await Matrix(supervisor, folder, clean_environment({MARKER: census.token}), python).run(case)
    cold = outcomes["cold"]
    if case in _PROBES:
        assert (cold.code, cold.stderr) == (0, "")
    for kind in KINDS[1:]:
        got = outcomes[kind]
        expected, observed = cold.observed(), got.observed()
        different = {name for name in {*expected, *observed} if expected.get(name) != observed.get(name)}
        found = {name: (expected.get(name), observed.get(name)) for name in different - DIFFERENCES[kind].keys()}
        assert found == {}, f"{kind} differs"
        if not observed:
            assert got.stdout == cold.stdout, f"{kind} differs"
        assert (got.code, got.stderr, got.file) == (cold.code, cold.stderr, cold.file), f"{kind} differs"
