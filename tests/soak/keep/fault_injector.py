"""The faults of a soak of Keep, each by its name. Each begins at once; its end is scheduled, so faults overlap."""

import contextlib
import heapq
import itertools
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psutil

from testing.servers.etcds import OwnEtcd
from tests.soak.keep.fleet import Fleet, Node, kill_together
from tests.soak.keep.observer import Observer

_MOST_NODES = 4
_LEAST_NODES = 2
_STATE, _STATE_S = "state", 25.0
"""No wipe and no loss of several nodes are closer together: without etcd and all nodes the job would be a new one."""


@dataclass
class Scene:
    """The objects of all faults."""

    fleet: Fleet
    etcd: OwnEtcd
    observer: Observer
    rng: random.Random
    busy: set[str] = field(default_factory=set)
    """Names of nodes with a fault that has not ended, and of other objects of faults, as `etcd`."""
    _due: list[tuple[float, int, str, Callable[[], None]]] = field(default_factory=list)
    _count: "itertools.count[int]" = field(default_factory=itertools.count)

    def record(self, kind: str, node: str, *, loss: bool = False, **more: object) -> None:
        """Write the beginning of a fault to the journal; `loss`: the memory of a node is out of reach for a while."""
        self.observer.write("fault", kind=kind, node=node, loss=loss, **more)

    def later(self, seconds: float, name: str, act: Callable[[], None]) -> None:
        """Run `act` in so many seconds; until then `name` is busy."""
        self.busy.add(name)
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._count), name, act))

    def end_due(self) -> None:
        """End the faults that are due."""
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, name, act = heapq.heappop(self._due)
            self.busy.discard(name)
            act()

    @property
    def is_quiet(self) -> bool:
        """Whether each fault has ended."""
        return not self._due

    def free_nodes(self) -> list[Node]:
        """Return the nodes that run without a fault."""
        return [node for node in self.fleet.up() if node.name not in self.busy]

    def some_node(self) -> Node | None:
        """Return a node that runs without a fault."""
        nodes = self.free_nodes()
        return self.rng.choice(nodes) if nodes else None

    def leader(self) -> Node | None:
        """Return the leader's node if it runs without a fault."""
        address = self.observer.address_of_leader()
        return next((node for node in self.free_nodes() if node.machine.address == address), None)


Fault = Callable[[Scene], bool]
"""It returns whether it found a target."""


def worker_dies(scene: Scene) -> bool:
    """Kill one worker."""
    node = scene.some_node()
    workers = node.workers() if node else []
    if node is None or not workers:
        return False
    scene.record("worker dies", node.name)
    scene.rng.choice(workers).kill()
    return True


def two_workers_die(scene: Scene) -> bool:
    """Kill a worker on each of two nodes at the same moment."""
    found = [(node, workers) for node in scene.free_nodes() if (workers := node.workers())]
    if len(found) < _LEAST_NODES:
        return False
    for node, workers in scene.rng.sample(found, 2):
        scene.record("two workers die", node.name)
        scene.rng.choice(workers).kill()
    return True


def node_is_lost(scene: Scene, node: Node | None = None) -> bool:
    """Kill an agent with its keeper and workers, and delete its memory; another agent comes later."""
    node = node or scene.some_node()
    if node is None:
        return False
    scene.record("node is lost", node.name, loss=True)
    node.kill(with_memory=True)
    _start_later(scene, node, scene.rng.uniform(0.1, 12.0))
    return True


def leader_is_lost(scene: Scene) -> bool:
    """Take the leader's node away."""
    node = scene.leader()
    return node is not None and node_is_lost(scene, node)


def two_nodes_are_lost(scene: Scene) -> bool:
    """Take two nodes away at once: with one copy, all steps may be gone."""
    nodes = scene.free_nodes()
    return len(nodes) >= _LEAST_NODES and lose_nodes(scene, scene.rng.sample(nodes, 2))


def lose_nodes(scene: Scene, nodes: list[Node], *, most_s: float = 12.0) -> bool:
    """Take these nodes away at once for so many seconds, unless the job's state in etcd may be gone."""
    if not nodes or _STATE in scene.busy:
        return False
    for node in nodes:
        scene.record("node is lost", node.name, loss=True)
    kill_together(nodes, with_memory=True)
    for node in nodes:
        _start_later(scene, node, scene.rng.uniform(0.1, most_s))
    scene.later(_STATE_S, _STATE, lambda: None)
    return True


def agent_restarts(scene: Scene, node: Node | None = None) -> bool:
    """Kill an agent; another one goes on with its volume soon."""
    node = node or scene.some_node()
    if node is None:
        return False
    scene.record("agent restarts", node.name, loss=True)
    node.kill(with_memory=False)
    _start_later(scene, node, scene.rng.choice([0.0, scene.rng.uniform(0.5, 12.0)]))
    return True


def agent_stands_still(scene: Scene) -> bool:
    """Stop an agent, while its keeper and workers run, and let it continue."""
    node = scene.some_node()
    if node is None:
        return False
    scene.record("agent stands still", node.name, loss=True)
    node.send(signal.SIGSTOP)
    scene.later(scene.rng.uniform(0.2, 12.0), node.name, lambda: node.send(signal.SIGCONT))
    return True


def keeper_dies(scene: Scene) -> bool:
    """Kill a keeper."""
    node = scene.rng.choice([scene.some_node(), scene.leader()])
    keeper = node.keeper() if node else None
    if node is None or keeper is None:
        return False
    scene.record("keeper dies", node.name)
    keeper.kill()
    return True


def keeper_stands_still(scene: Scene) -> bool:
    """Stop a keeper; after ten seconds its agent replaces it."""
    node = scene.rng.choice([scene.some_node(), scene.leader()])
    keeper = node.keeper() if node else None
    if node is None or keeper is None:
        return False
    scene.record("keeper stands still", node.name, loss=True)
    keeper.suspend()

    def go_on() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            keeper.resume()

    scene.later(scene.rng.uniform(0.2, 14.0), node.name, go_on)
    return True


def network_is_cut(scene: Scene) -> bool:
    """Unplug a machine: from etcd, from the other agents, and from the other keepers."""
    node = scene.rng.choice([scene.some_node(), scene.some_node(), scene.leader()])
    if node is None:
        return False
    scene.record("network is cut", node.name, loss=True)
    node.machine.disconnect()
    scene.later(scene.rng.uniform(0.2, 20.0), node.name, node.machine.connect)
    return True


def node_leaves(scene: Scene) -> bool:
    """Let a node leave in order, if two stay; another one comes later."""
    nodes = scene.free_nodes()
    if len(nodes) <= _LEAST_NODES:
        return False
    node = scene.rng.choice(nodes)
    scene.record("node leaves", node.name)
    node.may_end = True
    node.send(signal.SIGTERM)

    def start_again() -> None:
        if node.is_up:  # it still serves its steps
            scene.later(1.0, node.name, start_again)
        else:
            scene.fleet.start(node)

    scene.later(scene.rng.uniform(1.0, 30.0), node.name, start_again)
    return True


def node_joins(scene: Scene) -> bool:
    """Start an agent on a machine that has none."""
    idle = [node for node in scene.fleet.nodes if not node.is_up and node.name not in scene.busy]
    if not idle or len(scene.fleet.up()) >= _MOST_NODES:
        return False
    node = scene.rng.choice(idle)
    scene.record("node joins", node.name)
    scene.fleet.start(node)
    return True


def etcd_dies(scene: Scene) -> bool:
    """Kill etcd, and start it again with its data."""
    return _strike_etcd(scene, "etcd dies", scene.etcd.kill, scene.etcd.start, most_s=4.0)


def etcd_stands_still(scene: Scene) -> bool:
    """Stop etcd: its connections remain open without an answer."""
    return _strike_etcd(scene, "etcd stands still", scene.etcd.suspend, scene.etcd.resume, most_s=10.0)


def etcd_is_wiped(scene: Scene) -> bool:
    """Start etcd again without any data; two nodes at least know the job's state then."""
    if {"etcd", _STATE} & scene.busy or len(scene.free_nodes()) < _LEAST_NODES:
        return False
    scene.record("etcd is wiped", "etcd")
    scene.etcd.wipe()
    scene.later(_STATE_S, _STATE, lambda: None)
    return True


FAULTS: dict[Fault, int] = {
    worker_dies: 9,
    two_workers_die: 2,
    node_is_lost: 4,
    leader_is_lost: 2,
    two_nodes_are_lost: 1,
    agent_restarts: 3,
    agent_stands_still: 2,
    keeper_dies: 3,
    keeper_stands_still: 2,
    network_is_cut: 4,
    node_leaves: 3,
    node_joins: 3,
    etcd_dies: 2,
    etcd_stands_still: 1,
    etcd_is_wiped: 1,
}
"""Each fault with its weight."""


def strike(scene: Scene, faults: Mapping[Fault, int]) -> str:
    """Begin one of these faults; return its name, empty if it found no target."""
    (fault,) = scene.rng.choices(list(faults), weights=list(faults.values()))
    with contextlib.suppress(psutil.NoSuchProcess):  # the target has ended at this very moment
        return fault.__name__.replace("_", " ") if fault(scene) else ""
    return ""


def _start_later(scene: Scene, node: Node, seconds: float) -> None:
    scene.later(seconds, node.name, lambda: scene.fleet.start(node))


def _strike_etcd(scene: Scene, kind: str, begin: Callable[[], None], end: Callable[[], None], *, most_s: float) -> bool:
    if "etcd" in scene.busy:
        return False
    scene.record(kind, "etcd")
    begin()
    scene.later(scene.rng.uniform(0.0, most_s), "etcd", end)
    return True
