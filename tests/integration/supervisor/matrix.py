"""Run as process 1 of a PID namespace: every row of the tree-reaping matrix, and after each a census of all processes.

It prints the rest of each row as JSON. The first process of a namespace inherits its orphans as an init does, and reaps
those that have ended. Every other process in /proc counts, also a zombie of another parent.
"""

import asyncio
import itertools
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
from tests.integration.supervisor.commands import Builder, TreePipe
from tests.integration.supervisor.test_death import _AGENT
from tests.integration.supervisor.trees import TREES, script
from tests.integration.supervisor.warm_spawn import spawn_warm

_BUILD = Builder("matrix")


def all_processes(besides: int = 0) -> list[str]:
    """Return the command lines of all processes but this one and `besides`; a zombie's is its name in brackets."""
    _reap()
    found = []
    for pid in set(_pids()) - {os.getpid(), besides}:
        folder = Path("/proc") / str(pid)
        with suppress(FileNotFoundError, ProcessLookupError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            found.append(words or f"[{(folder / 'comm').read_text().strip()}]")
    return found


def _reap() -> None:
    """Reap the orphans that have ended; the code that starts our own children waits for those."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


async def _supervised(
    shape: str, start: str, leader: str, end: Callable[[Supervisor, Child], Awaitable[None]]
) -> list[str]:
    """Return the processes besides the fork server after this end, before a close could end them."""
    supervisor, tree_pipe = await Supervisor.create(), TreePipe()
    if start == "warm":
        command = _BUILD.python_with_site(script(shape), leader, stdout=tree_pipe.sink)
        [child] = await spawn_warm(supervisor, [command])
    else:
        [child] = await supervisor.spawn([_BUILD.python(script(shape), leader, stdout=tree_pipe.sink)])
    await tree_pipe.ready()
    if leader == "leave":
        await child.exit
    await end(supervisor, child)
    left = all_processes(besides=supervisor.server_pid)
    tree_pipe.close()
    await supervisor.close()
    return left


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


async def _stop(supervisor: Supervisor, child: Child) -> None:
    await supervisor.stop([child], grace_s=0.05)


async def _sweep(supervisor: Supervisor, child: Child) -> None:
    await supervisor.sweep([child])


def _kill_agent(shape: str, start: str) -> list[str]:
    """Kill a whole agent with two such workers, whose trees the kernel and its fork server must end."""
    command = [sys.executable, "-c", _AGENT, script(shape), "stays", start]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdout
        assert [agent.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        agent.kill()
        agent.stdout.read()  # ends when the last process of both trees has closed it
    eventually(lambda: not all_processes(), what="an empty namespace")
    return all_processes()


_ENDS: dict[str, Callable[[str, str], list[str]]] = {
    "a stop": lambda shape, start: asyncio.run(_supervised(shape, start, "stay", _stop)),
    "a stop after the leader has left": lambda shape, start: asyncio.run(_supervised(shape, start, "leave", _stop)),
    "a sweep": lambda shape, start: asyncio.run(_supervised(shape, start, "leave", _sweep)),
    "a killed agent": _kill_agent,
}


def _matrix() -> dict[str, list[str]]:
    left = {}
    for (name, end), shape, start in itertools.product(_ENDS.items(), TREES, ("cold", "warm")):
        left[f"{name} of {shape}, started {start}"] = [*end(shape, start), *all_processes()]
        _clear()
    return left


def _clear() -> None:
    """Kill the rest of one row, so that the next begins without it."""
    for pid in set(_pids()) - {os.getpid()}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not all_processes(), what="an empty namespace")


def _leave() -> dict[str, list[str]]:
    """Show that the census works: it finds a daemon in a session of its own, without environment, that is not ended."""
    subprocess.run(["setsid", "--fork", "env", "-i", "sleep", "1000"], check=True)
    eventually(lambda: all_processes() == ["sleep 1000"], what="the daemon")
    return {"a daemon": all_processes()}


if __name__ == "__main__":
    print(json.dumps({"matrix": _matrix, "leave": _leave}[sys.argv[1]]()))
