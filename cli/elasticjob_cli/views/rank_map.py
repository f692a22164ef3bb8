"""PURE: all ranks of a job as one letter each, in rank order: five hundred of them in nine lines of eighty columns."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from elasticjob_cli.terminal import Style

GLYPHS = {"R": "■", "S": "▸", "P": "·", "C": "✓", "F": "✗", "T": "▪", "U": "?"}
"""What stands for the letters of `status.nodes[].ranks`; each is told from the others without colour, too."""
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
    """Lines of blocks of ten, each line with its first rank; nodes outside the round come last, after a `+`."""
    letters = "".join(str(node.get("ranks") or "") for node in nodes if node.get("rank") is not None)
    outside = "".join(str(node.get("ranks") or "P") for node in nodes if node.get("rank") is None)
    row = max(_BLOCK, (width - _LABEL) // (_BLOCK + 1) * _BLOCK)
    for first in range(0, len(letters), row):
        yield [(f"{first:<{_LABEL}}", Style.DIM), *_pieces(letters[first : first + row])]
    for first in range(0, len(outside), row):
        yield [(f"{'+':<{_LABEL}}", Style.DIM), *_pieces(outside[first : first + row])]


def _pieces(letters: str) -> Pieces:
    """Neighbours of one state are one piece: a terminal is quicker with few changes of colour."""
    pieces: Pieces = []
    column = 0
    for letter, run in groupby(letters):
        text = ""
        for _ in run:
            text += GLYPHS.get(letter, letter) + (" " if column % _BLOCK == _BLOCK - 1 else "")
            column += 1
        pieces.append((text, STYLES.get(letter, Style.PLAIN)))
    return pieces
