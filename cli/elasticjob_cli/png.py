"""A picture's shapes as PNG; Pillow, in the extra `[cli]`, draws them."""

import io
from typing import Any

from elasticjob_cli.errors import MissingExtra
from elasticjob_cli.views.svg import Box, Label, Picture

_SCALE = 2
"""Pixels for each unit: readable on screens of today."""
_PLAIN = str.maketrans({"×": "x", "…": "..."})
"""Letters that the font which comes with Pillow does not have."""
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def as_png(picture: Picture) -> bytes:
    """The bytes of a PNG file; raises MissingExtra."""
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415  # only who asks for a PNG needs Pillow
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Pillow, which draws PNGs, is not installed: pip install 'elasticjob[cli]'; or use --svg"
        ) from error
    image = Image.new("RGB", (picture.width * _SCALE, picture.height * _SCALE), "white")
    draw: Any = ImageDraw.Draw(image)
    for shape in picture.shapes:
        if isinstance(shape, Box):
            right, bottom = shape.x + max(0.5, shape.width), shape.y + shape.height
            draw.rectangle(
                [shape.x * _SCALE, shape.y * _SCALE, right * _SCALE - 1, bottom * _SCALE - 1], fill=shape.fill
            )
        elif isinstance(shape, Label):
            font = ImageFont.load_default(size=shape.size * _SCALE)
            place = (shape.x * _SCALE, shape.y * _SCALE)
            draw.text(place, shape.text.translate(_PLAIN), fill=shape.fill, font=font, anchor=_ANCHORS[shape.anchor])
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()
