"""Workers that are started warm with torch: each rank draws its own numbers in each round."""

from pathlib import Path

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


async def test_a_seed_that_an_import_gives_to_torch_is_that_of_a_cold_start(torch_python: Path, tmp_path: Path) -> None:
    with Census() as census:
        supervisor = await Supervisor.create()
        node = WarmNode(supervisor, tmp_path, clean_environment({MARKER: census.token}), limits=Limits(quiet_s=2.0))
        node.package("seeds", "import torch\ntorch.manual_seed(7)\n")
        try:
            script = node.script("import seeds, torch, fractions" + SHOW.format("torch.rand(1).item()"))
            await node.start(torch_python, script)
            cold = await shown(node)
            await node.forked_ahead()
            assert await node.restart(torch_python, script) == [True, True], node.starter.reason
            assert await shown(node) == cold
        finally:
            await node.stop()
            await node.starter.close()
            await supervisor.close()
