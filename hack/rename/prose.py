"""Docstrings whose lines became too long."""

import ast

from hack.rename import tables

_LENGTH = 120


def rewritten(name: str, text: str, step: str) -> str:
    """Return the text of a file with the lines of prose.toml for a step, and long lines of docstrings wrapped."""
    rows = tables.load("prose")["line"]
    assert isinstance(rows, list)
    for row in rows:
        if row.get("step", step) == step and (row["file"] == "*" or tables.path_now(row["file"]) == name):
            text = text.replace(row["old"], row["new"])
    return _wrapped(text)


def _wrapped(text: str) -> str:
    """Wrap the lines of docstrings but the first, which is to be one line."""
    lines = text.split("\n")
    for number in sorted(_docstring_lines(text), reverse=True):
        _wrap(lines, number)
    return "\n".join(lines)


def _docstring_lines(text: str) -> set[int]:
    """Return the indices of the lines of all docstrings but their first."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, int(node.end_lineno or node.lineno)))
    return found


def _wrap(lines: list[str], number: int) -> None:
    """Move what is too much of a line to the beginning of the next, or to a line of its own."""
    line = lines[number]
    if len(line) <= _LENGTH:
        return
    indent = " " * (len(line) - len(line.lstrip()))
    head, _, rest = line[: _LENGTH + 1].rpartition(" ")
    rest = (rest + line[_LENGTH + 1 :]).lstrip()
    if not head.strip():
        return
    following = lines[number + 1] if number + 1 < len(lines) else ""
    lines[number] = head.rstrip()
    is_same = following.startswith(indent) and following[len(indent) :][:1] not in {"", " ", '"', "-"}
    if is_same and not line.rstrip().endswith('"""'):
        lines[number + 1] = f"{indent}{rest} {following.lstrip()}"
        _wrap(lines, number + 1)
    else:
        lines.insert(number + 1, f"{indent}{rest}")
