"""Metadata of a distribution beside the script, which imports ahead have not seen: code that asks for it finds it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.warm_start.shown import SHOW, shown
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

_LISTS = """
from importlib import metadata
names = sorted(str(each.metadata["Name"]) for each in metadata.distributions())
"""
_WORKING_SET = """
import os, sys
names = sorted(name.partition("-")[0].partition(".")[0] for entry in sys.path if os.path.isdir(entry)
               for name in os.listdir(entry) if "-info" in name)
"""
"""Of `pkg_resources`, which lists the distributions when it is imported. It may not be installed."""


def _add(folder: Path, name: str) -> None:
    """Write the metadata of a distribution into this folder."""
    (folder / name).mkdir(parents=True)
    for file in ("METADATA", "PKG-INFO"):
        (folder / name / file).write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")


async def _shows(node: WarmNode, *, folder: str = "") -> tuple[list[str], list[bool], list[str]]:
    """Return what cold workers show, which workers of the next round are warm, and what these show."""
    node.script(
        (f"import sys\nsys.path.append({folder!r})\n" if folder else "")
        + "import lists, fractions"
        + SHOW.format("'mine' in lists.names")
    )
    await node.start()
    cold = await shown(node)
    await node.forked_ahead()
    warm = await node.restart()
    return cold, warm, await shown(node)


@pytest.mark.parametrize(
    ("module", "code", "name"),
    [
        ("lists", _LISTS, "mine.egg-info"),
        ("lists", _LISTS, "Mine-1.0.dist-info"),
        ("pkg_resources", _WORKING_SET, "mine.egg-info"),
    ],
)
async def test_a_distribution_beside_the_script_that_imports_have_not_seen_is_a_cold_start(
    node: WarmNode, sentences: Sentences, module: str, code: str, name: str
) -> None:
    node.package("lists", "from pkg_resources import names")
    node.package(module, code)
    _add(node.work, name)
    cold, warm, shown_then = await _shows(node)
    assert (cold, warm, shown_then) == (["True"] * 2, [False] * 2, cold)
    found = name.partition(".")[0].partition("-")[0]
    assert sentences() == [f"not warm: an import has listed the distributions, without {found} in {node.work}"]


async def test_a_distribution_in_a_folder_that_the_script_adds_is_a_cold_start(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("lists", _LISTS)
    folder = node.folder / "added"
    _add(folder, "mine.egg-info")
    cold, warm, shown_then = await _shows(node, folder=str(folder))
    assert (cold, warm, shown_then) == (["True"] * 2, [False] * 2, cold)
    assert sentences() == [f"not warm: an import has listed the distributions, without mine in {folder}"]


@pytest.mark.parametrize("place", ["installed", "seen", "not asked for", "editable"])
async def test_a_distribution_that_imports_have_seen_or_not_asked_for_keeps_no_start_cold(
    node: WarmNode, sentences: Sentences, place: str
) -> None:
    node.package("lists", "names = []" if place == "not asked for" else _LISTS)
    _add(node.work, "mine.egg-info")
    if place == "installed":
        _add(node.packages, "Mine-1.0.dist-info")
    elif place == "seen":
        node.env["PYTHONPATH"] += f":{node.work}"
    elif place == "editable":
        (node.packages / "mine.egg-link").write_text(str(node.work))
        node.env["PYTHONPATH"] += f":{node.work}"
    cold, warm, shown_then = await _shows(node)
    assert (warm, shown_then) == ([True] * 2, cold)
    assert sentences() == []
