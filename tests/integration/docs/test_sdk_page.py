"""docs/sdk.md's function on several nodes: its script on the driver, its command on another node."""

import re
import subprocess
import sys
from pathlib import Path

from elasticjob_agent.net.ports import free_port
from testing.waiting import scaled
from tests.integration.docs.typed import output_of, typed
from tests.unit.docs.commands import ROOT

LEAST_NODES = 'nnodes="1:4"'
"""On the page one node is enough; here the call waits for the other one."""


def script(here: str) -> str:
    """Return the script of the page, with a free port of this machine."""
    page = (ROOT / "docs" / "sdk.md").read_text()
    [found] = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "launch_nodes(" in code]
    assert LEAST_NODES in found
    return str(found).replace("head:29400", here).replace(LEAST_NODES, 'nnodes="2:4"').replace("[0]", "")


def test_a_function_runs_on_the_driver_and_on_a_node_that_joins(tmp_path: Path, own_config: Path) -> None:
    here = f"127.0.0.1:{free_port()}"
    (tmp_path / "train.py").write_text(script(here))
    with subprocess.Popen((sys.executable, "train.py"), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as asks:
        other = typed("python -m elasticjob.nodes head:29400", tmp_path, {"head:29400": here})
        results, _ = asks.communicate(timeout=scaled(90))
    output_of(other)
    found = re.findall(r"(\d+): 'rank (\d+) of (\d+) with 0.1'", results)
    assert [tuple(map(int, rank)) for rank in found] == [(rank, rank, 4) for rank in range(4)]
    assert (own_config / "elasticjob" / "call-secret").exists()  # and not in the user's configuration
