"""The socket between agent and zygote: whatever happens on it, a zygote never runs the script."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.supervisor import Child, Command, Supervisor
from elasticjob_agent.warm_start.changed_variables import ChangedVariables
from elasticjob_agent.warm_start.injection import become_zygote
from elasticjob_agent.warm_start.node_recording import NodeRecording
from elasticjob_agent.warm_start.zygote import PROTOCOL, Zygote, ZygoteLost
from testing.waiting import aeventually
from tests.integration.warm_start.warm_node import WarmNode


def _command(node: WarmNode) -> Command:
    node.script()
    return node.command(node.argv(), 0)


async def _start(node: WarmNode, command: Command) -> Zygote:
    recording, changed = NodeRecording(1), ChangedVariables()
    recording.close()
    zygote = await Zygote.start(
        node.supervisor,
        command,
        imports=recording,
        variables={},
        changed=changed,
        files={},
        denied=(),
        varying=("RANK",),
        output=node.preload,
    )
    changed.close()
    return zygote


def _plan(content: bytes) -> int:
    fd = os.memfd_create("plan")
    os.write(fd, content)
    return fd


_PLAN: dict[str, object] = {
    "protocol": PROTOCOL,
    "modules": {},
    "folders": [],
    "files": {},
    "variables": {},
    "denied": [],
    "varying": [],
    "read_in_c": [],
    "known": [],
    "script": "",
}
_FIRST_MESSAGES: dict[str, list[tuple[bytes, bytes | None]]] = {
    "none": [],
    "no descriptor": [(b'{"plan": true}', None)],
    "no JSON": [(b"hello", b"hello")],
    "an empty plan": [(b'{"plan": true}', b"")],
    "a plan of another kind": [(b'{"plan": true}', b"[]")],
    "a plan without modules": [(b'{"plan": true}', b'{"denied": []}')],
    "the plan of another version": [(b'{"plan": true}', json.dumps({**_PLAN, "protocol": PROTOCOL + 1}).encode())],
    "no JSON after the plan": [(b'{"plan": true}', json.dumps(_PLAN).encode()), (b"hello", None)],
    "a fork without a socket": [(b'{"plan": true}', json.dumps(_PLAN).encode()), (b'{"fork": true}', None)],
    "an end in order": [(b'{"plan": true}', json.dumps(_PLAN).encode()), (b'{"exit": true}', None)],
}


@pytest.mark.parametrize("name", _FIRST_MESSAGES)
async def test_a_zygote_ends_without_running_the_script(node: WarmNode, supervisor: Supervisor, name: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        child = await supervisor.start_zygote(become_zygote(_command(node), theirs.fileno(), node.preload))
    with ours:
        for message, plan in _FIRST_MESSAGES[name]:
            fds = [] if plan is None else [_plan(plan), _plan(bytes(1024))]
            socket.send_fds(ours, [message], fds)
            for fd in fds:
                os.close(fd)
    end = await child.exit
    assert (end.stopped_by_us, node.run_count()) == (False, 0), node.preload.data
    await supervisor.sweep([child])
    assert node.run_count() == 0


async def test_a_zygote_whose_sitecustomize_disappears_as_it_starts_ends(
    node: WarmNode, supervisor: Supervisor, site_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_zygote = supervisor.start_zygote

    async def lose_and_start(command: Command) -> Child:
        (site_folder / "sitecustomize.py").unlink()
        return await start_zygote(command)

    monkeypatch.setattr(supervisor, "start_zygote", lose_and_start)
    zygote = await _start(node, _command(node))
    await aeventually(lambda: zygote.child.ended or node.run_count(), what="the end of the zygote")
    assert node.run_count() == 0
    assert zygote.child.exit.result().code == 70
    await zygote.close()


async def test_a_zygote_forks_workers_that_outlive_it(node: WarmNode, supervisor: Supervisor) -> None:
    command = _command(node)
    zygote = await _start(node, command)
    report = await zygote.read_report()
    assert report.side_effects == ()
    workers = await zygote.fork(2)
    await zygote.close()
    await zygote.close()
    assert all(worker.is_alive and worker.pid for worker in workers)
    node.round, node.nproc = 1, 2
    node.children = await supervisor.spawn([node.command(node.argv(), rank) for rank in (0, 1)], workers)
    await node.ran()
    assert [child.pid for child in node.children] == [worker.pid for worker in workers]


async def test_workers_of_one_request_have_only_their_own_sockets(node: WarmNode, supervisor: Supervisor) -> None:
    zygote = await _start(node, _command(node))
    await zygote.read_report()
    workers = [*await zygote.fork(1), *await zygote.fork(7)]
    await zygote.close()
    assert len({worker.pid for worker in workers}) == 8
    for worker in workers:
        process = psutil.Process(worker.pid)
        assert process.ppid() == supervisor.server_pid
        assert os.getsid(worker.pid) == worker.pid
        assert len(_sockets(worker.pid)) == 1
    assert len(set().union(*(_sockets(worker.pid) for worker in workers))) == 8
    await supervisor.discard(workers)


def _sockets(pid: int) -> set[str]:
    targets = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    return {each for each in targets if each.startswith("socket:")}


async def test_a_fork_of_a_killed_zygote_is_an_error_with_its_end(node: WarmNode, supervisor: Supervisor) -> None:
    zygote = await _start(node, _command(node))
    await zygote.read_report()
    os.kill(zygote.child.pid, signal.SIGKILL)
    with pytest.raises(ZygoteLost, match=r"it has ended \(killed by SIGKILL\)"):
        await zygote.fork(1)
    assert supervisor._preforked == {}
    await zygote.close()


async def test_a_cancelled_fork_leaves_no_worker(node: WarmNode, supervisor: Supervisor) -> None:
    zygote = await _start(node, _command(node))
    await zygote.read_report()
    os.kill(zygote.child.pid, signal.SIGSTOP)
    forking = asyncio.create_task(zygote.fork(1))
    await asyncio.wait([forking], timeout=0.05)
    forking.cancel()
    await asyncio.wait([forking])
    await zygote.close()
    assert supervisor._preforked == {}
    assert not Path(f"/proc/{zygote.child.pid}").exists()  # noqa: ASYNC240


def _count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
async def hostile(node: WarmNode, supervisor: Supervisor) -> AsyncIterator[tuple[Zygote, socket.socket]]:
    """A zygote as the agent sees it, and the other end of its socket, which the test has."""
    zygote = await _start(node, _command(node))
    await zygote.read_report()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with ours, theirs:
        yield Zygote(supervisor, zygote.child, ours), theirs
    await zygote.close()


@pytest.mark.parametrize("kind", ["a counter of events", "a pipe"])
async def test_a_report_that_is_no_memory_file_is_not_read(hostile: tuple[Zygote, socket.socket], kind: str) -> None:
    """A read of such a file may never return."""
    zygote, link = hostile
    end, *others = os.pipe() if kind == "a pipe" else [os.eventfd(0)]
    socket.send_fds(link, [b'{"report": true}'], [end])
    with pytest.raises(ZygoteLost, match="its report is not readable"):
        await zygote.read_report()
    for fd in (end, *others):
        os.close(fd)


async def test_descriptors_that_a_zygote_sends_are_closed(hostile: tuple[Zygote, socket.socket]) -> None:
    zygote, link = hostile
    before = _count_descriptors()
    for _ in range(5):
        socket.send_fds(link, [b"{}"], [link.fileno()] * 3)
        await zygote._receive()
    assert _count_descriptors() == before


async def test_nested_json_of_a_zygote_is_no_message(hostile: tuple[Zygote, socket.socket]) -> None:
    zygote, link = hostile
    link.send(b"[" * 60_000)
    with pytest.raises(ZygoteLost):
        await zygote.fork(0)
