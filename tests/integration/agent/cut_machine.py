"""Drills with one of two nodes on a machine of its own, whose cable is pulled; run in a network of its own.

python -m tests.integration.agent.cut_machine FOLDER missed_by_nobody|left_behind CLOSER
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


def begin(job: ScriptedFleet, line: NetworkNamespace, *, closer: str) -> int:
    """Three nodes run round 1; `closer` says where the one is that closes rounds. The number of the one there."""
    first = start_there(job, line) if closer == "there" else start_here(job)
    job.await_world(RoundPhase.FORMING, 1)
    there = first if closer == "there" else start_there(job, line)
    for _ in range(3 - len(job.agents)):
        start_here(job)
    job.await_round(1, 3)
    assert (job.agent_of(job.slot_of_leader()) == there) == (closer == "there")
    return there


def missed_by_nobody(job: ScriptedFleet, line: NetworkNamespace, closer: str) -> None:
    """The cable is back before the lease ends: nobody is lost, and what happened meanwhile is one round."""
    there = begin(job, line, closer=closer)
    here = next(ranks[0] for agent, ranks in job.ranks(1).items() if agent != there)
    line.disconnect()
    job.give_orders(1, {str(here): {"exit": 1}})
    job.await_world(RoundPhase.FORMING, 2)
    line.connect()
    job.await_round(2, 3)
    assert (job.restarts(2), job.await_world(RoundPhase.ACTIVE, 2).node_losses) == ({"1"}, 0)
    job.all_finish()
    assert job.rounds() == {1, 2}


def left_behind(job: ScriptedFleet, line: NetworkNamespace, closer: str) -> None:
    """It stays away for longer than the lease: the others go on, its healthy worker too; back, it joins anew."""
    there = begin(job, line, closer=closer)
    job.set_replicas(min=2)
    worker = next(int(p["pid"]) for p in job.running(1) if p["of"] == there)
    line.disconnect()
    job.await_round(2, 2)
    assert there not in job.ranks(2)
    assert psutil.pid_exists(worker), "a healthy worker was stopped although nobody told its node to"
    line.connect()
    job.await_round(3, 3)
    assert not psutil.pid_exists(worker)
    world = job.await_world(RoundPhase.ACTIVE, 3)
    assert (world.restarts, world.node_losses) == (0, 1)
    job.all_finish()


DRILLS = {"missed_by_nobody": (missed_by_nobody, 60.0), "left_behind": (left_behind, 3.0)}
"""And for how long a lease lives."""


def main(folder: str, name: str, closer: str) -> None:
    """One drill on an etcd of its own."""
    run, keep_alive_s = DRILLS[name]
    with (
        network_namespace() as line,
        own_etcd(Path(folder)) as etcd,
        proxy("127.0.0.1", etcd.port, at=HOST_ADDRESS) as way,
        scripted_fleet(way.endpoint, Path(folder), "3", 1, keep_alive_s=keep_alive_s) as job,
    ):
        run(job, line, closer)


if __name__ == "__main__":
    main(*sys.argv[1:])
