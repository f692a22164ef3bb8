"""A program that is one agent: `python program.py CONFIG.json`; it writes its result to the file `result`.

CONFIG: role, nproc, command or function (`module:name`), args, rendezvous (parameters) and fields of WorkerSpec and
LocalElasticAgent. The process exits by itself; an exception of `run` is in the result.
"""

import importlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

from elasticjob_agent.rendezvous.interface import RendezvousParameters
from elasticjob_agent.rendezvous.registry import get_rendezvous_handler
from elasticjob_agent.server import LocalElasticAgent, WorkerSpec


def main(config: dict[str, Any]) -> dict[str, Any]:
    """Run the agent; return how it ended."""
    entrypoint: Any = config["entrypoint"]
    if ":" in entrypoint:
        module, _, name = entrypoint.partition(":")
        entrypoint = getattr(importlib.import_module(module), name)
    handler = get_rendezvous_handler(RendezvousParameters(**config["rendezvous"]))
    spec = WorkerSpec(
        role=config.get("role", "default"),
        local_world_size=config.get("nproc", 1),
        rdzv_handler=handler,
        entrypoint=entrypoint,
        args=tuple(config.get("args", ())),
        **{"monitor_interval": 3600.0, **config.get("spec", {})},
    )
    agent = LocalElasticAgent(spec, log_dir=config["log_dir"], **config.get("agent", {}))
    try:
        result = agent.run()
    except Exception as error:  # noqa: BLE001 - the test checks any exception
        return {"raised": type(error).__name__, "text": str(error), "sigval": getattr(error, "sigval", None)}
    return {
        "state": result.state.name,
        "values": {str(rank): value for rank, value in result.return_values.items()},
        "failures": {str(rank): failure.exitcode for rank, failure in result.failures.items()},
        "restarts": agent._restart_count,
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    given = json.loads(Path(sys.argv[1]).read_text())
    Path(given["result"]).write_text(json.dumps(main(given)))
