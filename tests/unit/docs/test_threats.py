"""SECURITY.md's table of threats and docs/security.md's of inputs: each row names what shows it, and that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BY_DESIGN = "by design"
TABLES = {"SECURITY.md": "shown by", "docs/security.md": "test"}
"""The page and the title of the last column."""


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of each row of the table whose last column has this title."""
    lines = (ROOT / page).read_text().splitlines()
    [head] = [number for number, line in enumerate(lines) if line.endswith(f"| {title} |")]
    found = []
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


CLAIMS = [pytest.param(row, id=f"{page}: {row[1]:.40}") for page, title in TABLES.items() for row in rows(page, title)]


def is_there(what: str) -> bool:
    """A target of the Makefile, a file of tests, one test of it, or another file or folder."""
    if what.startswith("make "):
        return re.search(rf"^{what.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None
    path, _, test = what.partition("::")
    if not path.startswith(("tests/", "e2e/")):
        return (ROOT / path).exists()
    if not path.endswith(".py") or not (ROOT / path).is_file():
        return False
    wanted = rf"{re.escape(test)}\b" if test else "test_"
    return re.search(rf"^(async )?def {wanted}", (ROOT / path).read_text(), re.MULTILINE) is not None


def spelt_out(named: list[str]) -> list[str]:
    """With the file of the one before for `…`."""
    whole = list[str]()
    for what in named:
        whole.append(what.replace("…", whole[-1].partition("::")[0]) if whole else what)
    return whole


@pytest.mark.parametrize("row", CLAIMS)
def test_what_a_row_names_is_there(row: list[str]) -> None:
    named = spelt_out(re.findall(r"`([^`]+)`", row[-1]))
    assert named or row[-1] == BY_DESIGN, "nothing shows it"
    assert [what for what in named if not is_there(what)] == []


@pytest.mark.parametrize(
    "what",
    [
        "tests/unit/docs/test_threats.py::test_of_nothing",
        "tests/unit/docs/test_threats.py::test_what_a_row",
        "tests/unit/docs",
        "tests/unit/docs/commands.py",
        "tests/nowhere.py",
        "make nothing",
        "nowhere/",
    ],
)
def test_what_is_not_there_is_seen(what: str) -> None:
    assert not is_there(what)


def test_three_dots_stand_for_the_file_named_before() -> None:
    assert spelt_out(["tests/a.py::test_x", "…::test_y", "make b"]) == [
        "tests/a.py::test_x",
        "tests/a.py::test_y",
        "make b",
    ]


def test_both_tables_are_read() -> None:
    assert all(len(rows(page, title)) > 9 for page, title in TABLES.items())
