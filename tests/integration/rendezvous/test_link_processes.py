"""The link between real agents: no child has its sockets, and SIGKILL is detected although the lease lasts an hour."""

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
    """Return three agents, two of them needed, with leases of an hour."""
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "2:3", 1, conf="keep_alive=3600") as made:
        made.start_agents(3)
        yield made


async def leader_of(job: Fleet, server: EmbeddedEtcd) -> "subprocess.Popen[bytes]":
    """Return the agent that leads."""
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
    """Return the inodes of all sockets that a process has open."""
    targets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    return {target for target in targets if target.startswith("socket:")}


def await_link(agent: "subprocess.Popen[bytes]") -> None:
    """Wait until the leader's link to this agent is established."""
    (port,) = tcp_of(agent.pid, psutil.CONN_LISTEN)
    eventually(lambda: port in tcp_of(agent.pid, psutil.CONN_ESTABLISHED), within_s=20, what="the leader's link")


def tcp_of(pid: int, status: str) -> list[int]:
    """Return local ports of a process's sockets on 127.0.0.1 with this status."""
    found = psutil.Process(pid).net_connections("tcp")
    return [c.laddr.port for c in found if c.status == status and c.laddr.ip == "127.0.0.1"]


async def test_no_child_of_an_agent_holds_its_listener_or_a_link(job: Fleet, etcd_server: EmbeddedEtcd) -> None:
    leader = await leader_of(job, etcd_server)
    for agent in job.agents:
        if agent is not leader:
            await_link(agent)
        children = psutil.Process(agent.pid).children(recursive=True)
        assert len(children) >= 2, "the fork server and a worker"
        for child in children:
            assert not sockets_of(child.pid) & sockets_of(agent.pid), f"{child} holds a socket of its agent"


async def test_a_killed_agent_is_detected_at_once(job: Fleet, etcd_server: EmbeddedEtcd) -> None:
    leader = await leader_of(job, etcd_server)
    victim = next(agent for agent in job.agents if agent is not leader)
    await_link(victim)
    victim.send_signal(signal.SIGKILL)
    job.await_round(2, 2)
    assert set(job.ranks(2)) == {i for i, agent in enumerate(job.agents) if agent is not victim}


async def test_a_killed_leader_is_detected_at_once(job: Fleet, etcd_server: EmbeddedEtcd) -> None:
    leader = await leader_of(job, etcd_server)
    for agent in job.agents:
        if agent is not leader:
            await_link(agent)
    leader.send_signal(signal.SIGKILL)
    job.await_round(2, 2)
    assert set(job.ranks(2)) == {i for i, agent in enumerate(job.agents) if agent is not leader}


async def test_a_leader_and_a_member_killed_together_are_both_detected_at_once(
    etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "1:3", 1, conf="keep_alive=3600") as job:
        job.start_agents(3)
        leader = await leader_of(job, etcd_server)
        survivor, victim = (agent for agent in job.agents if agent is not leader)
        for agent in (survivor, victim):
            await_link(agent)
        # Stopped first: neither may act on the end of the other, such as campaign with a lease of an hour.
        for order in (signal.SIGSTOP, signal.SIGKILL):
            for agent in (leader, victim):
                agent.send_signal(order)
        job.await_round(2, 1)
        assert set(job.ranks(2)) == {job.agents.index(survivor)}
