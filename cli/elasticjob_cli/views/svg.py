"""A picture as a few shapes, and the shapes as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

FONT = "ui-sans-serif, system-ui, Helvetica, Arial, sans-serif"
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle; a browser shows `title` under the mouse."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text whose baseline is at `y`."""

    x: float
    y: float
    text: str
    size: int = 12
    fill: str = "#1f2933"
    anchor: Anchor = "start"


Shape = Box | Label


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes, drawn in this order."""

    width: int
    height: int
    shapes: Sequence[Shape]
    title: str = ""


def as_svg(picture: Picture) -> str:
    """Return an SVG document."""
    size = f'viewBox="0 0 {picture.width} {picture.height}" width="{picture.width}" height="{picture.height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img">'
    body = [f"<title>{escape(picture.title)}</title>", *map(_shape, picture.shapes)]
    return "\n".join([head, *body, "</svg>"]) + "\n"


def _shape(shape: Shape) -> str:
    if isinstance(shape, Label):
        attributes = f'x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size}" text-anchor="{shape.anchor}"'
        return f'<text {attributes} fill="{shape.fill}">{escape(shape.text)}</text>'
    attributes = f'x="{shape.x:.2f}" y="{shape.y:.1f}" width="{max(0.5, shape.width):.2f}" height="{shape.height:.1f}"'
    if not shape.title:
        return f'<rect {attributes} fill="{shape.fill}"/>'
    return f'<rect {attributes} fill="{shape.fill}"><title>{escape(shape.title)}</title></rect>'
