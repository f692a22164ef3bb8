"""Workers that are started warm with torch: each rank draws its own numbers in each round."""

from pathlib import Path

import pytest

from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.warm_start.limits import Limits
from testing.processes.census import MARKER, Census
from tests.integration.warm_start.shown import SHOW, shown
from tests.integration.warm_start.warm_node import WarmNode, clean_environment

_ROUNDS = 3
_DRAWN = "torch.rand(1).item(), torch.nn.Dropout()(torch.ones(64)).tolist(), torch.initial_seed()"


async def test_ranks_draw_different_numbers_in_each_round(torch_python: Path, tmp_path: Path) -> None:
    with Census() as census:
        supervisor = await Supervisor.create()
        node = WarmNode(supervisor, tmp_path, clean_environment({MARKER: census.token}), limits=Limits(quiet_s=2.0))
        try:
            script = node.script("import torch, torch.utils.data" + SHOW.format(_DRAWN))
            await node.start(torch_python, script)
            drawn = await shown(node)
            for _ in range(_ROUNDS):
                await node.forked_ahead()
                assert await node.restart(torch_python, script) == [True, True], node.starter.reason
                drawn += await shown(node)
            assert len(set(drawn)) == len(drawn) == 2 + 2 * _ROUNDS
        finally:
            await node.stop()
            await node.starter.close()
            await supervisor.close()


_IN_CONTEXT = "import torch\nwith torch.random.fork_rng():\n    value = torch.rand(1).item()\n"


@pytest.mark.parametrize(
    ("code", "shows"),
    [("import torch\ntorch.manual_seed(7)\n", "torch.rand(1).item()"), (_IN_CONTEXT, "seeds.value")],
    ids=["seeds", "restores"],
)
async def test_an_import_that_seeds_torch_or_draws_from_it_is_as_in_a_cold_start(
    torch_python: Path, tmp_path: Path, code: str, shows: str
) -> None:
    with Census() as census:
        supervisor = await Supervisor.create()
        node = WarmNode(supervisor, tmp_path, clean_environment({MARKER: census.token}), limits=Limits(quiet_s=2.0))
        node.package("seeds", code)
        try:
            script = node.script("import torch\ntorch.manual_seed(5)\nimport seeds, fractions" + SHOW.format(shows))
            await node.start(torch_python, script)
            cold = await shown(node)
            await node.forked_ahead()
            assert await node.restart(torch_python, script) == [True, True], node.starter.reason
            assert await shown(node) == cold
        finally:
            await node.stop()
            await node.starter.close()
            await supervisor.close()
