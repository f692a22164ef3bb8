"""Run as process 1 of a PID namespace: every row of the tree-reaping matrix, and after each a census of all processes.

Prints what each row has left, as JSON. The first process of a namespace inherits its orphans as an init does, and
reaps what has ended by itself; whatever else is listed in /proc but itself counts, zombies of others too.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from elasticjob_agent.supervisor import Child, Supervisor
from testing.waiting import eventually
from tests.integration.supervisor.commands import Builder, Tether
from tests.integration.supervisor.test_death import _AGENT
from tests.integration.supervisor.trees import TREES, script

_BUILD = Builder("matrix")


def everybody(besides: int = 0) -> list[str]:
    """The command lines of all processes but this one and `besides`; a zombie's is its name in brackets."""
    _reap()
    found = []
    for pid in set(_pids()) - {os.getpid(), besides}:
        folder = Path("/proc") / str(pid)
        with suppress(FileNotFoundError, ProcessLookupError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            found.append(words or f"[{(folder / 'comm').read_text().strip()}]")
    return found


def _reap() -> None:
    """Collect the orphans that have ended; our own children were waited for by whoever started them."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


async def _supervised(shape: str, leader: str, end: Callable[[Supervisor, Child], Awaitable[None]]) -> list[str]:
    """What is there besides the starter after this end, before a close could make up for it."""
    supervisor, tether = await Supervisor.create(), Tether()
    [child] = await supervisor.spawn([_BUILD.python(script(shape), leader, stdout=tether.sink)])
    await tether.ready()
    if leader == "leave":
        await child.exit
    await end(supervisor, child)
    left = everybody(besides=supervisor.server_pid)
    tether.close()
    await supervisor.close()
    return left


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


async def _stop(supervisor: Supervisor, child: Child) -> None:
    await supervisor.stop([child], grace_s=0.05)


async def _sweep(supervisor: Supervisor, child: Child) -> None:
    await supervisor.sweep([child])


def _kill_agent(shape: str) -> list[str]:
    """A whole agent with two such workers is killed; the kernel and its starter must do the rest."""
    command = [sys.executable, "-c", _AGENT, script(shape), "stays"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdout
        assert [agent.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        agent.kill()
        agent.stdout.read()  # ends when the last of both trees has let go of it
    eventually(lambda: not everybody(), what="an empty namespace")
    return everybody()


_ENDS: dict[str, Callable[[str], list[str]]] = {
    "a stop": lambda shape: asyncio.run(_supervised(shape, "stay", _stop)),
    "a stop after the leader has left": lambda shape: asyncio.run(_supervised(shape, "leave", _stop)),
    "a sweep": lambda shape: asyncio.run(_supervised(shape, "leave", _sweep)),
    "a killed agent": _kill_agent,
}


def _matrix() -> dict[str, list[str]]:
    left = {}
    for name, end in _ENDS.items():
        for shape in TREES:
            left[f"{name} of {shape}"] = [*end(shape), *everybody()]
            _clear()
    return left


def _clear() -> None:
    """What one row has left is not the next one's."""
    for pid in set(_pids()) - {os.getpid()}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not everybody(), what="an empty namespace")


def _leave() -> dict[str, list[str]]:
    """The proof that the census sees: a daemon in a session of its own and without environment, which nobody ends."""
    subprocess.run(["setsid", "--fork", "env", "-i", "sleep", "1000"], check=True)
    eventually(lambda: everybody() == ["sleep 1000"], what="the daemon")
    return {"nobody's": everybody()}


if __name__ == "__main__":
    print(json.dumps({"matrix": _matrix, "leave": _leave}[sys.argv[1]]()))
