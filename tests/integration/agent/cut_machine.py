"""Drills with one of three nodes on another machine, whose network is cut; run in a network namespace.

python -m tests.integration.agent.cut_machine FOLDER back_in_time|left_behind here|there

The last argument is the place of the leader.
"""

import sys
from pathlib import Path

import psutil

from elasticjob_api.rendezvous_state import RoundPhase
from testing.network.netns import HOST_ADDRESS, NAMESPACE_ADDRESS, NetworkNamespace, network_namespace
from testing.network.proxy import proxy
from testing.processes.scripted_fleet import ScriptedFleet, scripted_fleet
from testing.servers.etcds import own_etcd


def start_here(job: ScriptedFleet) -> int:
    job.address, job.inside = HOST_ADDRESS, ()
    return job.run_scripted()


def start_there(job: ScriptedFleet, line: NetworkNamespace) -> int:
    job.address, job.inside = NAMESPACE_ADDRESS, line.inside
    return job.run_scripted()


def begin(job: ScriptedFleet, line: NetworkNamespace, *, leader: str) -> int:
    """Start three nodes in round 1, with the leader here or there. Return the number of the agent there."""
    first = start_there(job, line) if leader == "there" else start_here(job)
    job.await_state(RoundPhase.FORMING, 1)
    there = first if leader == "there" else start_there(job, line)
    for _ in range(3 - len(job.agents)):
        start_here(job)
    job.await_round(1, 3)
    assert (job.agent_of(job.slot_of_leader()) == there) == (leader == "there")
    return there


def back_in_time(job: ScriptedFleet, line: NetworkNamespace, leader: str) -> None:
    """The network is back before the lease ends: no node is lost, and the failure meanwhile is one round."""
    there = begin(job, line, leader=leader)
    here = next(ranks[0] for agent, ranks in job.ranks(1).items() if agent != there)
    line.disconnect()
    job.give_orders(1, {str(here): {"exit": 1}})
    job.await_state(RoundPhase.FORMING, 2)
    line.connect()
    job.await_round(2, 3)
    assert (job.restarts(2), job.await_state(RoundPhase.ACTIVE, 2).node_losses) == ({"1"}, 0)
    job.all_finish()
    assert job.rounds() == {1, 2}


def left_behind(job: ScriptedFleet, line: NetworkNamespace, leader: str) -> None:
    """The node is away for longer than the lease: the others continue, its worker runs on, and it joins again."""
    there = begin(job, line, leader=leader)
    job.set_replicas(min=2)
    worker = next(int(p["pid"]) for p in job.running(1) if p["of"] == there)
    line.disconnect()
    job.await_round(2, 2)
    assert there not in job.ranks(2)
    assert psutil.pid_exists(worker), "a healthy worker was stopped without an order"
    line.connect()
    job.await_round(3, 3)
    assert not psutil.pid_exists(worker)
    state = job.await_state(RoundPhase.ACTIVE, 3)
    assert (state.restarts, state.node_losses) == (0, 1)
    job.all_finish()


DRILLS = {"back_in_time": (back_in_time, 60.0), "left_behind": (left_behind, 3.0)}
"""Each drill, and the seconds of its leases."""


def main(folder: str, name: str, leader: str) -> None:
    """Run one drill on an etcd of its own."""
    run, keep_alive_s = DRILLS[name]
    with (
        network_namespace() as line,
        own_etcd(Path(folder)) as etcd,
        proxy("127.0.0.1", etcd.port, at=HOST_ADDRESS) as way,
        scripted_fleet(way.endpoint, Path(folder), "3", 1, keep_alive_s=keep_alive_s) as job,
    ):
        run(job, line, leader)


if __name__ == "__main__":
    main(*sys.argv[1:])
