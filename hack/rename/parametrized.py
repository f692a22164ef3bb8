"""Dictionaries that a test is given by `parametrize`."""

import ast
import re
from collections.abc import Iterator


def parametrized(function: ast.AST, name: str) -> Iterator[ast.Dict]:
    """Yield the dictionaries that a parameter of a test gets."""
    for decorator in getattr(function, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "attr", "") == "parametrize":
            yield from _values(decorator, name)


def _values(decorator: ast.Call, name: str) -> Iterator[ast.Dict]:
    if len(decorator.args) < 2 or not isinstance(decorator.args[1], (ast.List, ast.Tuple)):  # noqa: PLR2004
        return
    names = [word for each in ast.walk(decorator.args[0]) if isinstance(each, ast.Constant) for word in _words(each)]
    for row in decorator.args[1].elts if name in names else ():
        cells = _cells(row) if len(names) > 1 else [row]
        if len(cells) == len(names) and isinstance(cell := cells[names.index(name)], ast.Dict):
            yield cell


def _words(text: ast.Constant) -> list[str]:
    return re.findall(r"\w+", str(text.value))


def _cells(row: ast.expr) -> list[ast.expr]:
    """Return the values of a row, a tuple or `pytest.param(…)`."""
    if isinstance(row, ast.Call):
        return row.args
    return row.elts if isinstance(row, (ast.List, ast.Tuple)) else []
