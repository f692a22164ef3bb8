"""A Python that is too old for the warm start runs the script, and nothing is seen of ours."""

import asyncio

import pytest

from testing.pythons import need_python
from tests.integration.warm_start.warm_node import WarmNode

_SHOW = """
import os, sys
names = sorted(each for each in os.environ if each.startswith(("PYTHON", "ELASTIC")))
print('value %s %s' % (os.environ["ROUND"], [each for each in sys.path if 'warm_start' in each]))
print('value %s %s' % (os.environ["ROUND"], names))
sys.stdout.flush()
"""


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
async def test_a_python_that_is_too_old_shows_nothing_of_the_warm_start(node: WarmNode, version: str) -> None:
    python = need_python(version)
    node.nproc = 1
    node.env["ELASTICJOB_PROGRESS"] = str(node.folder / "progress")
    script = node.script(_SHOW, end="")
    names = str(sorted(each for each in node.env if each.startswith(("PYTHON", "ELASTIC"))))
    for _ in range(2):
        assert await node.start(python, script) == [False]
        await asyncio.wait([node.children[0].drained])
        await node.settled()
        assert node.values() == ["[]", names]
    assert b"sitecustomize" not in node.console.data
    assert node.starter._reasons.no_zygote.startswith("Python did not report itself")
