"""All ranks of a job as one letter each, in rank order: five hundred of them in nine lines of eighty columns.

The usage of nodes is a map of the same form, with a bar in eighths for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from elasticjob_cli.terminal import Style

GLYPHS = {"R": "■", "S": "▸", "P": "·", "C": "✓", "F": "✗", "T": "▪", "U": "?"}
"""Glyphs for the letters of `status.nodes[].ranks`; they differ without colour, too."""
STYLES = {
    "R": Style.GOOD,
    "S": Style.INFO,
    "P": Style.DIM,
    "C": Style.GOOD,
    "F": Style.BAD,
    "T": Style.DIM,
    "U": Style.WARN,
}
_BLOCK = 10
_LABEL = 6

Pieces = list[tuple[str, Style]]


def rank_map(nodes: Sequence[Mapping[str, Any]], *, width: int) -> Iterator[Pieces]:
    """Yield lines of blocks of ten that begin with their first rank; nodes outside the round are last, after a `+`."""
    letters = "".join(str(node.get("ranks") or "") for node in nodes if node.get("rank") is not None)
    outside = "".join(str(node.get("ranks") or "P") for node in nodes if node.get("rank") is None)
    row = _row(width)
    for first in range(0, len(letters), row):
        yield [(f"{first:<{_LABEL}}", Style.DIM), *_pieces(letters[first : first + row])]
    for first in range(0, len(outside), row):
        yield [(f"{'+':<{_LABEL}}", Style.DIM), *_pieces(outside[first : first + row])]


def level_map(levels: str, *, width: int) -> Iterator[Pieces]:
    """Yield such lines for nodes, with one level each; a line begins with the number of its first node."""
    row = _row(width)
    for first in range(0, len(levels), row):
        part = levels[first : first + row]
        blocks = " ".join(part[at : at + _BLOCK] for at in range(0, len(part), _BLOCK))
        yield [(f"{first:<{_LABEL}}", Style.DIM), (blocks, Style.INFO)]


def _row(width: int) -> int:
    return max(_BLOCK, (width - _LABEL) // (_BLOCK + 1) * _BLOCK)


def _pieces(letters: str) -> Pieces:
    """Return the letters as pieces, one for neighbours in the same state."""
    # A terminal is faster with fewer changes of colour.
    pieces: Pieces = []
    column = 0
    for letter, run in groupby(letters):
        text = ""
        for _ in run:
            text += GLYPHS.get(letter, letter) + (" " if column % _BLOCK == _BLOCK - 1 else "")
            column += 1
        pieces.append((text, STYLES.get(letter, Style.PLAIN)))
    return pieces
