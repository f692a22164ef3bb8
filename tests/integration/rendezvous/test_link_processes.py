"""The link between real agents: no child holds its sockets, and SIGKILL is found where the lease takes an hour."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_api.rendezvous_state import decode_leader
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.fleet import Fleet, fleet
from testing.waiting import eventually

pytestmark = pytest.mark.etcd


@pytest.fixture
def job(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[Fleet]:
    """Three agents, two needed, whose leases live for an hour."""
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "2:3", 1, conf="keep_alive=3600") as made:
        made.start_agents(3)
        yield made


async def closer_of(job: Fleet, server: EmbeddedEtcd) -> "subprocess.Popen[bytes]":
    """The agent that closes rounds."""
    etcd, keys = EtcdClient(server.endpoint), Keys(cli_prefix(job.run_id))
    try:
        found = await etcd.get(keys.leader)
        assert found is not None
        member = decode_leader(found.value).member
        node = await etcd.get(keys.node(member.slot, member.incarnation))
        assert node is not None
        return next(agent for agent in job.agents if f'-{agent.pid}"'.encode() in node.value)
    finally:
        await etcd.close()


def sockets_of(pid: int) -> set[str]:
    """The inodes of all sockets that a process has open."""
    targets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    return {target for target in targets if target.startswith("socket:")}


def await_link(agent: "subprocess.Popen[bytes]") -> None:
    """Wait until the closer's link to this agent stands."""
    (port,) = tcp_of(agent.pid, psutil.CONN_LISTEN)
    eventually(lambda: port in tcp_of(agent.pid, psutil.CONN_ESTABLISHED), within_s=20, what="the closer's link")


def tcp_of(pid: int, status: str) -> list[int]:
    """Local ports of a process's sockets on 127.0.0.1 in this status."""
    found = psutil.Process(pid).net_connections("tcp")
    return [c.laddr.port for c in found if c.status == status and c.laddr.ip == "127.0.0.1"]


async def test_no_child_of_an_agent_holds_its_listener_or_a_link(job: Fleet, etcd_server: EmbeddedEtcd) -> None:
    closer = await closer_of(job, etcd_server)
    for agent in job.agents:
        if agent is not closer:
            await_link(agent)
        children = psutil.Process(agent.pid).children(recursive=True)
        assert len(children) >= 2, "the starter and a worker"
        for child in children:
            assert not sockets_of(child.pid) & sockets_of(agent.pid), f"{child} holds a socket of its agent"


async def test_an_agent_that_is_killed_is_missed_at_once(job: Fleet, etcd_server: EmbeddedEtcd) -> None:
    closer = await closer_of(job, etcd_server)
    victim = next(agent for agent in job.agents if agent is not closer)
    await_link(victim)
    victim.send_signal(signal.SIGKILL)
    job.await_round(2, 2)
    assert set(job.ranks(2)) == {i for i, agent in enumerate(job.agents) if agent is not victim}


async def test_a_closer_that_is_killed_is_missed_at_once(job: Fleet, etcd_server: EmbeddedEtcd) -> None:
    closer = await closer_of(job, etcd_server)
    for agent in job.agents:
        if agent is not closer:
            await_link(agent)
    closer.send_signal(signal.SIGKILL)
    job.await_round(2, 2)
    assert set(job.ranks(2)) == {i for i, agent in enumerate(job.agents) if agent is not closer}


async def test_a_closer_and_another_that_are_killed_together_are_both_missed_at_once(
    etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "1:3", 1, conf="keep_alive=3600") as job:
        job.start_agents(3)
        closer = await closer_of(job, etcd_server)
        survivor, victim = (agent for agent in job.agents if agent is not closer)
        for agent in (survivor, victim):
            await_link(agent)
        # Stopped first: neither may act on the death of the other one, such as campaign with a lease of an hour.
        for order in (signal.SIGSTOP, signal.SIGKILL):
            for agent in (closer, victim):
                agent.send_signal(order)
        job.await_round(2, 1)
        assert set(job.ranks(2)) == {job.agents.index(survivor)}
