"""Prose of Python source: docstrings, comments, texts of errors and log lines, help of options."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator

from hack.prose.passages import CODE, Kind, Passage, passages

_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' + r"'''(?:\\.|[^\\])*?'''|" + r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'|"
    r"(?P<comment>\#[^\n]*)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"#\s*(?:!|noqa|type:|pragma|ruff:|mypy:|fmt:|shellcheck|-\*-|pylint:)")
_LOGGERS = re.compile(r"_?(?:log|logger|LOG|logging)$")
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
_TEXTS = {"message", "help", "description", "epilog"}
"""Keyword arguments that are shown to users."""


def source_passages(source: str) -> list[Passage]:
    """Return the passages of a Python file, each once.

    Raises:
        SyntaxError: it is not Python.
    """
    return list(dict.fromkeys((*_comments(source), *_code(source))))


def _code(source: str) -> Iterator[Passage]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(node)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _messages(node.exc)
        elif isinstance(node, ast.Call):
            yield from _call(node)


def _comments(source: str) -> Iterator[Passage]:
    """Return the comments; consecutive lines that hold nothing else are one text."""
    block: list[str] = []
    began = column = 0
    for line, at, text in _comment_lines(source):
        is_next = block and line == began + len(block) and at == column
        if not is_next:
            yield from _comment(began, block)
            began, column, block = line, at, []
        block.append(text)
    yield from _comment(began, block)


def _comment_lines(source: str) -> Iterator[tuple[int, int, str]]:
    """Return the line, the column and the text of each comment that is prose."""
    line = position = 0
    for found in _STRING_OR_COMMENT.finditer(source):
        line += source.count("\n", position, found.start())
        position = found.start()
        if found["comment"] and not _DIRECTIVE.match(found["comment"]):
            yield line + 1, position - source.rfind("\n", 0, position), found["comment"].lstrip("#:")


def _comment(line: int, block: list[str]) -> Iterator[Passage]:
    if block:
        yield from passages(textwrap.dedent("\n".join(block)), first_line=line)


def _docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Passage]:
    """Return the passages of a docstring, and of the texts under attributes."""
    for child in node.body:
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str):
            is_summary = child is node.body[0] and _is_public_function(node)
            kind = Kind.SUMMARY if is_summary else Kind.TEXT
            yield from passages(inspect.cleandoc(child.value.value), first_line=child.lineno, kind=kind)


def _is_public_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")


def _call(node: ast.Call) -> Iterator[Passage]:
    """Return the texts of a log line, and of keyword arguments that are shown to users."""
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr in _LEVELS and _LOGGERS.match(_last_name(called.value)):
        yield from _messages(node)
        return
    for keyword in node.keywords:
        if keyword.arg in _TEXTS:
            yield from _messages(keyword.value)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _messages(node: ast.AST) -> Iterator[Passage]:
    """Return the strings below a node; values inside an f-string are one word each."""
    if isinstance(node, ast.JoinedStr):
        yield from _message(node.lineno, "".join(map(_piece, node.values)))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _message(node.lineno, node.value)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _messages(child)


def _piece(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else CODE


def _message(line: int, text: str) -> Iterator[Passage]:
    if " " in text.strip():
        yield from passages(inspect.cleandoc(text), first_line=line)
