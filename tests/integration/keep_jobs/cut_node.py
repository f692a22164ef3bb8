"""A job of two nodes, one of which is cut off and trains on alone; run in a network namespace.

python -m tests.integration.keep_jobs.cut_node FOLDER here|there

The last argument is the place of the leader.
"""

import sys
import tempfile
from pathlib import Path

from testing.network.netns import HOST_ADDRESS, NAMESPACE_ADDRESS, NetworkNamespace, network_namespace
from testing.network.proxy import proxy
from testing.servers.etcds import own_etcd
from testing.waiting import eventually
from tests.integration.keep_jobs.training_fleet import TrainingFleet


def start(fleet: TrainingFleet, line: NetworkNamespace, *, is_there: bool) -> int:
    """Start one agent at an end of the cable."""
    fleet.address, fleet.inside = (NAMESPACE_ADDRESS, line.inside) if is_there else (HOST_ADDRESS, ())
    return fleet.run_training()


def refuse_its_branch(fleet: TrainingFleet, line: NetworkNamespace, leader: str) -> None:
    """Both train on, in two branches. The steps of the one that was cut off are dropped, though they are newer."""
    first = start(fleet, line, is_there=leader == "there")
    second = start(fleet, line, is_there=leader == "here")
    there = first if leader == "there" else second
    one = fleet.await_world(2)
    fleet.train_to(1, one, 2)
    fleet.train_to(2, one, 2)
    fleet.await_committed(2, first, second)
    line.disconnect()
    two = fleet.await_world(1)
    assert set(fleet.ranks(two)) == {1 - there}
    assert fleet.restored(two) == {2}
    fleet.train_to(9, one, 1)  # the worker that was cut off publishes in its old round
    fleet.train_to(9, two, 1)

    def branch() -> set[str]:
        return {name for name in fleet.held(there) if name.startswith(f"{one}.") and "/9/" in name}

    dead = eventually(branch, what="the keeper of the node that was cut off has taken its newest step")
    line.connect()
    three = fleet.await_world(2)
    assert fleet.restored(three) == {9}
    assert {point["steps"] for point in fleet.running(three)} == {9}
    assert not dead & (fleet.held(first) | fleet.held(second))


def main(folder: str, leader: str) -> None:
    """Run it on an etcd of its own."""
    with (
        network_namespace() as line,
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ejk-") as keep_dir,
        own_etcd(Path(folder)) as etcd,
        proxy("127.0.0.1", etcd.port, at=HOST_ADDRESS) as way,
    ):
        fleet = TrainingFleet(way.endpoint, Path(folder), "1:2", 1, keep_dir=Path(keep_dir))
        try:
            refuse_its_branch(fleet, line, leader)
        finally:
            fleet.kill_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
