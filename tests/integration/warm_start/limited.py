"""Rounds of a user who may start no more processes: `python -m tests.integration.warm_start.limited FOLDER`.

It prints which workers of each round were warm and why not, and how often each round ran the script.
"""

import asyncio
import logging
import os
import resource
import sys
from pathlib import Path

import psutil

from elasticjob_agent.supervisor import StartError, Supervisor
from tests.integration.warm_start.warm_node import WarmNode, clean_environment


def _limit(pid: int, processes: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_NPROC)
    resource.prlimit(pid, resource.RLIMIT_NPROC, (processes, hard))


async def _rounds(node: WarmNode, supervisor: Supervisor) -> None:
    node.script()
    await _report(node)
    await node.forked_ahead()
    _limit(node.zygote(), 1)
    await _report(node)
    await node.settled()
    await _report(node)
    _limit(supervisor.server_pid, 1)
    await node.stop()
    try:
        await node.start()
    except StartError as error:
        print("error", error, len(node.run_files()))
    _limit(supervisor.server_pid, 10_000)
    _limit(node.zygote(), 10_000)
    await _report(node)
    await node.forked_ahead()
    await _report(node)


async def _report(node: WarmNode) -> None:
    warm = await node.restart()
    await node.ran()
    print("warm" if all(warm) else "cold", len(node.run_files()), node.starter.reason)


async def main() -> None:
    """Run the rounds in the folder of the command line."""
    logging.basicConfig(level=logging.ERROR)
    supervisor = await Supervisor.create()
    assert psutil.Process(supervisor.server_pid).uids().real == os.getuid()
    node = WarmNode(supervisor, Path(sys.argv[1]), clean_environment({}))
    await _rounds(node, supervisor)
    await node.stop()
    await node.starter.close()
    await supervisor.close()


if __name__ == "__main__":
    asyncio.run(main())
