"""The context of an image has all files of the wheel: without them no image can be built, which e2e finds late."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_context_of_an_image_has_every_folder_that_the_wheel_takes_files_from() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = {path.partition("/")[0] for path in (*hatch["packages"], *hatch.get("force-include", ()))}
    [line] = [line for line in (ROOT / "images" / "build").read_text().splitlines() if " pyproject.toml " in line]
    assert wanted <= set(line.split())
