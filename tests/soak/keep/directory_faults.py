"""The faults of jobs with a shared directory: more losses than copies, and a directory that goes away."""

import time
from collections.abc import Callable

import psutil

from tests.soak.keep.fault_injector import Fault, Scene, lose_nodes
from tests.soak.keep.fleet import Node

_WRITE_WITHIN_S = 6.0
"""A step is written every 5 s at most."""
_LOOK_S = 0.002


def all_nodes_are_lost(scene: Scene) -> bool:
    """Take all nodes away at once that have no other fault; new ones come later."""
    return lose_nodes(scene, scene.free_nodes())


def others_are_lost_while_a_node_is_cut_off(scene: Scene) -> bool:
    """Unplug a machine until the others may have written newer steps; then take those away, and connect it again."""
    node = scene.some_node()
    if node is None:
        return False
    scene.record("network is cut", node.name, loss=True)
    node.machine.disconnect()

    def lose_others() -> None:
        others = [each for each in scene.free_nodes() if each is not node]
        scene.later(scene.rng.uniform(0.2, 8.0), node.name, node.machine.connect)
        lose_nodes(scene, others, most_s=25.0)

    scene.later(scene.rng.uniform(8.0, 20.0), node.name, lose_others)
    return True


def directory_goes_away(scene: Scene) -> bool:
    """Take the shared directory away from one node or from all, and give it back later."""
    nodes = [node for node in scene.fleet.nodes if _mount_of(node) not in scene.busy]
    if scene.rng.random() < 0.5:
        nodes = nodes and [scene.rng.choice(nodes)]
    for node in nodes:
        _hide_for_a_while(scene, node)
    return bool(nodes)


def writer_dies(scene: Scene) -> bool:
    """Kill the process that writes to the directory, in the middle of a write if there is one soon."""
    return _kill_in_a_write(scene, "writer", Node.writer)


def keeper_dies_in_a_write(scene: Scene) -> bool:
    """Kill a keeper while a step is written."""
    return _kill_in_a_write(scene, "keeper", Node.keeper)


DIRECTORY_FAULTS: dict[Fault, int] = {
    all_nodes_are_lost: 6,
    others_are_lost_while_a_node_is_cut_off: 6,
    directory_goes_away: 4,
    writer_dies: 2,
    keeper_dies_in_a_write: 2,
}
"""Each fault with its weight."""


def _mount_of(node: Node) -> str:
    return f"the directory of {node.name}"


def _hide_for_a_while(scene: Scene, node: Node) -> None:
    shared = scene.fleet.shared
    assert shared is not None
    scene.record("directory goes away", node.name)
    shared.hide(node.name)
    scene.later(scene.rng.uniform(0.2, 20.0), _mount_of(node), lambda: shared.show(node.name))


def _kill_in_a_write(scene: Scene, name: str, find: Callable[[Node], psutil.Process | None]) -> bool:
    node = scene.some_node()
    if node is None or not _await_write(scene) or (process := find(node)) is None:
        return False
    scene.record(f"{name} dies", node.name)
    process.kill()
    return True


def _await_write(scene: Scene) -> bool:
    """Wait until a node begins to write a step; return False if none does in some seconds."""
    shared, until_s = scene.fleet.shared, time.monotonic() + _WRITE_WITHIN_S
    assert shared is not None
    before = shared.unfinished_steps()
    while not shared.unfinished_steps() - before:
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True
