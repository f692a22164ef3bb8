"""Passages of prose: paragraphs, list items, table cells and headings of Markdown and of docstrings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

CODE = "`_`"
"""Replaces a code span, and a value inside an f-string: one word that no rule looks at."""

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?=\S)")
_SECTION = re.compile(r"(?:Args|Arguments|Attributes|Returns|Raises|Yields):$")
_FIELD = re.compile(r"\s+\*{0,2}[\w.]+: ")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_RULE = re.compile(r"[\s|:=*_-]*$")
_MARKUP = [
    (re.compile(r"``.+?``|`[^`]+`"), CODE),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), " "),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"<[/!]?[a-zA-Z][^>]*>"), " "),
    (re.compile(r"\*\*|(?<!\w)[*_](?=\w)|(?<=[\w.])[*_](?!\w)"), ""),
]


class Kind(StrEnum):
    """The part of a text that a passage is."""

    TEXT = "text"
    SUMMARY = "summary"
    """The first paragraph of the docstring of a public function."""


@dataclass(frozen=True)
class Passage:
    """Text without markup and line breaks, and the line where it begins."""

    line: int
    text: str
    kind: Kind = Kind.TEXT


def plain(text: str) -> str:
    """Return Markdown without its markup, each code span replaced by one word."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def passages(text: str, *, first_line: int = 1, kind: Kind = Kind.TEXT) -> Iterator[Passage]:
    """Return the passages of Markdown or of a dedented docstring; code blocks are left out.

    Args:
        text: the document.
        first_line: the number of its first line.
        kind: the kind of its first passage; all others are plain text.
    """
    for line, found in _Blocks(text).blocks():
        cleaned = plain(found)
        if cleaned:
            yield Passage(first_line + line, cleaned, kind)
        kind = Kind.TEXT


class _Blocks:
    """One reading of a document, line by line."""

    def __init__(self, text: str) -> None:
        without_comments = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
        self._lines = without_comments.split("\n")
        self._block: list[str] = []
        self._began = 0
        self._indent = 0
        """The column where text of the innermost list item or section begins."""

    def blocks(self) -> Iterator[tuple[int, str]]:
        """Return each block with the index of its first line."""
        is_fenced = False
        for number, line in enumerate(self._lines):
            is_fence = _FENCE.match(line) is not None
            is_fenced ^= is_fence
            if is_fence or is_fenced or not line.strip() or _is_separate(line):
                yield from self._end()
                if not is_fence and not is_fenced:
                    yield from _separate(number, line)
                continue
            yield from self._text(number, line)
        yield from self._end()

    def _text(self, number: int, line: str) -> Iterator[tuple[int, str]]:
        indent = len(line) - len(line.lstrip())
        item = _ITEM.match(line) or (_FIELD.match(line) if indent <= self._indent else None)
        if item is not None and (indent < self._indent + 4):
            yield from self._end()
            self._begin(number, line[item.end() :], item.end() if _ITEM.match(line) else indent + 4)
        elif _SECTION.match(line):
            yield from self._end()
            self._indent = 4
        elif indent >= self._indent + 4:
            yield from self._end()
        elif self._block:
            self._block.append(line)
        else:
            self._begin(number, line, min(indent, self._indent))

    def _begin(self, number: int, text: str, indent: int) -> None:
        self._began, self._block, self._indent = number, [text], indent

    def _end(self) -> Iterator[tuple[int, str]]:
        if self._block:
            yield self._began, "\n".join(self._block)
        self._block = []


def _is_separate(line: str) -> bool:
    """Return True for a line that is a block of its own: a heading or a row of a table."""
    return _HEADING.match(line) is not None or line.lstrip().startswith("|")


def _separate(number: int, line: str) -> Iterator[tuple[int, str]]:
    heading = _HEADING.match(line)
    if heading is not None:
        yield number, heading[1]
    elif _RULE.match(line) is None:
        for cell in line.strip().strip("|").split("|"):
            yield number, cell
