"""The timeline's picture as PNG."""

import io

from PIL import Image

from elasticjob_cli.png import as_png
from elasticjob_cli.views.job_history import job_history
from elasticjob_cli.views.timeline_svg import timeline_picture
from tests.unit.cli.recorded import NOW_S, a_job, two_rounds


def test_the_png_has_the_size_and_the_colours_of_the_picture() -> None:
    picture = timeline_picture(job_history(a_job(rounds=two_rounds()), [], now_s=NOW_S))
    image = Image.open(io.BytesIO(as_png(picture)))
    assert image.size == (2 * picture.width, 2 * picture.height)
    colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20) or ()}
    assert {(62, 124, 177), (224, 128, 58)} <= colours
