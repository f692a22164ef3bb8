"""Draw a picture as PNG, with Pillow of the extra `[cli]`."""

import io
from typing import Any

from elasticjob_cli.errors import MissingExtra
from elasticjob_cli.views.svg import Box, Label, Picture

_SCALE = 2
"""Pixels for each unit, for the screens of today."""
_PLAIN = str.maketrans({"×": "x", "…": "..."})
"""Characters that Pillow's font does not have, and their replacements."""
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def as_png(picture: Picture) -> bytes:
    """Return the bytes of a PNG file; raise MissingExtra without Pillow."""
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415  # only PNGs need Pillow
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
