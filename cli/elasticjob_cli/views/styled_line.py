"""A line of a terminal, as pieces of text with their styles."""

from collections.abc import Sequence
from dataclasses import dataclass

from elasticjob_cli.terminal import Style, paint, printable
from elasticjob_cli.views.text import cut


@dataclass(frozen=True, slots=True)
class StyledLine:
    """Pieces of text with their styles."""

    pieces: Sequence[tuple[str, Style]]

    def render(self, width: int, *, colour: bool) -> str:
        """Return the line, cut to `width` columns."""
        out, left = [], width
        for text, style in self.pieces:
            shown = cut(printable(text), left)
            out.append(paint(shown, style, colour=colour))
            left -= len(shown)
            if left <= 0:
                break
        return "".join(out).rstrip() if not colour else "".join(out)


def plain(text: str, style: Style = Style.PLAIN) -> StyledLine:
    """Return a line in one style."""
    return StyledLine(((text, style),))
