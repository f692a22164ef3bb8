"""docs/migrating-from-torch.md names what there is: every public name, and no other."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "migrating-from-torch.md"
_HEADING = re.compile(r"^## `(elasticjob_agent\.[\w.]+)`$")
_ROW = re.compile(r"^\| `([\w.]+)` \| (\w+) \|")
_VERDICTS = {"same", "better", "different", "new"}


def _rows() -> list[tuple[str, str, str]]:
    """Module, name and verdict of each row."""
    rows, module = [], ""
    for line in _PAGE.read_text().splitlines():
        if heading := _HEADING.match(line):
            module = heading[1]
        elif row := _ROW.match(line):
            rows.append((module, row[1], row[2]))
    return rows


_MODULES = list(dict.fromkeys(module for module, _, _ in _rows()))


def _public(module: ModuleType) -> set[str]:
    if hasattr(module, "__all__"):
        return set(module.__all__)
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return {name for name in own if not name.startswith("_")}


@pytest.mark.parametrize("module", [*_MODULES, "elasticjob_agent.multiprocessing.errors.handlers"])
def test_every_public_name_is_on_the_page(module: str) -> None:
    assert _public(importlib.import_module(module)) <= {name for _, name, _ in _rows()}


@pytest.mark.parametrize("module", _MODULES)
def test_every_name_on_the_page_is_there(module: str) -> None:
    for name in (name for where, name, _ in _rows() if where == module):
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)


def test_every_row_has_a_verdict_and_nothing_is_in_two_rows_of_a_module() -> None:
    rows = _rows()
    assert {verdict for _, _, verdict in rows} == _VERDICTS
    assert len({(module, name) for module, name, _ in rows}) == len(rows)
