"""PURE: `status.nodes`: one entry per slot: its pod, its rank in the active round, and each worker's letter.

While the job lives it is read from the map; once it has ended, from the members of the last round, because
agents take their reports with them and a failure empties the map.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from elasticjob_api import codec
from elasticjob_api.job import nproc_per_node
from elasticjob_api.status import NodeStatus
from elasticjob_api.world import Member, State, World
from elasticjob_operator.observed import Observed
from elasticjob_operator.policy.standing import Owner
from elasticjob_operator.policy.worker_states import letters, settled

_SEVERAL = 2
_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1
BYTES_LIMIT = 128 * 1024
"""Of all entries as JSON: the object must stay far below what the API server accepts."""
_MOST_BYTES, _MOST_BYTES_OF_A_RANK = 2048, 34
"""No entry is longer (names of at most 253 bytes; letter, cpu and memory of each rank): few are not even measured."""


def node_statuses(seen: Observed) -> tuple[NodeStatus, ...]:
    """An entry for every node of the job, by slot."""
    world = seen.view.world
    if world is not None and world.state.final:
        return tuple(_last_nodes(seen, world))
    stays = _stays(seen)
    return tuple(_node(seen, slot, owner, stays.get(slot)) for slot, owner in sorted(seen.owners().items()))


@dataclass(frozen=True, slots=True)
class _Stay:
    """The living agent of a slot's own pod."""

    member: Member
    leaving: bool


def _stays(seen: Observed) -> dict[int, _Stay]:
    names = seen.view.owners()
    found: dict[int, _Stay] = {}
    for member, node in sorted(seen.view.nodes.items(), key=lambda item: item[1].create_revision):
        if names.get(member.slot) == node.record.pod and member not in seen.view.gone:
            found[member.slot] = _Stay(member, node.record.leaving)
    return found


def _node(seen: Observed, slot: int, owner: Owner, stay: _Stay | None) -> NodeStatus:
    active = seen.view.active
    members = active.members if active else ()
    rank = members.index(stay.member) if stay and stay.member in members else None
    report = seen.view.reports.get(stay.member) if stay else None
    was_member = any(member.slot == slot for member in members)
    silent = ("U" if was_member else "P") * nproc_per_node(seen.job.spec)
    ranks = letters(report) if report else silent
    cpu = [worker.cpu_percent for worker in report.workers] if report else []
    memory = [worker.memory_bytes for worker in report.workers] if report else []
    return NodeStatus(
        name=f"{seen.job.metadata.name}-{slot}",
        pod_name=owner.name,
        node_name=owner.pod.node_name if owner.pod else "",
        rank=rank,
        state=_state(owner, stay, rank, ranks, lost=was_member and stay is None),
        ranks=ranks,
        reason=owner.pod.reason if owner.pod else "",
        cpu_percent=_total(cpu, _INT32),
        memory_bytes=_total(memory, _INT64),
        rank_cpu_percent=_each(cpu, _INT32),
        rank_memory_bytes=_each(memory, _INT64),
    )


_Samples = Sequence[float | None]


def _total(samples: _Samples, most: int) -> int | None:
    """Of the workers of a node, up to what the status can hold; None until one was sampled."""
    known = [sample for sample in samples if sample is not None]
    return _storable(sum(known), most) if known else None


def _each(samples: _Samples, most: int) -> tuple[int, ...]:
    """Of each worker, unless the total says it already."""
    if len(samples) < _SEVERAL or all(sample is None for sample in samples):
        return ()
    return tuple(_storable(sample or 0, most) for sample in samples)


def _storable(sample: float, most: int) -> int:
    return round(max(0, min(most, sample)))


def _state(owner: Owner, stay: _Stay | None, rank: int | None, ranks: str, *, lost: bool) -> str:
    if stay is None:
        running = owner.pod is not None and owner.pod.phase == "Running"
        return "Lost" if lost else ("Joining" if running else "Pending")
    if stay.leaving:
        return "Stopping"
    return "Waiting" if rank is None else _state_of_member(ranks)


def _state_of_member(ranks: str) -> str:
    if "F" in ranks:
        return "Failed"
    return {"R": "Running", "CR": "Running", "C": "Succeeded"}.get("".join(sorted(set(ranks))), "Starting")


def _last_nodes(seen: Observed, world: World) -> Iterable[NodeStatus]:
    before = {node.name: node for node in seen.status.nodes}
    members = seen.view.membership.members if seen.view.membership else ()
    by_name = {f"{seen.job.metadata.name}-{member.slot}": (rank, member) for rank, member in enumerate(members)}
    if not by_name:
        return [_end(node, world, node.ranks) for node in before.values()]
    return [_last_node(seen, name, place, before, world) for name, place in sorted(by_name.items(), key=_by_slot)]


def _by_slot(item: tuple[str, tuple[int, Member]]) -> int:
    return item[1][1].slot


def _last_node(
    seen: Observed, name: str, place: tuple[int, Member], before: Mapping[str, NodeStatus], world: World
) -> NodeStatus:
    rank, member = place
    owner = seen.view.owners().get(member.slot, "")
    known = before.get(name) or NodeStatus(name=name, pod_name=owner)
    if owner and known.pod_name != owner:  # replaced since the status was last written
        known = NodeStatus(name=name, pod_name=owner)
    report = seen.view.reports.get(member) or seen.ledger.memory.reports.get(member)
    said = letters(report) if report else ""  # the last word may be of the moment between two rounds
    ranks = said or known.ranks or "U" * nproc_per_node(seen.job.spec)
    pod = seen.pods.get(known.pod_name)
    place_of = replace(known, rank=rank, node_name=pod.node_name if pod else known.node_name)
    return _end(place_of, world, _with_failures(seen, member.slot, ranks))


def _with_failures(seen: Observed, slot: int, ranks: str) -> str:
    """Failure records outlive the reports, which go with their agents."""
    if seen.view.membership is None:
        return ranks
    place = f"{seen.view.membership.round}/{slot:04x}"
    failed = {i for i in range(len(ranks)) if f"{place}.{i}" in seen.view.failures}
    return "".join("F" if i in failed else letter for i, letter in enumerate(ranks))


def _end(node: NodeStatus, world: World, ranks: str) -> NodeStatus:
    succeeded = world.state is State.SUCCEEDED
    final = settled(ranks, succeeded=succeeded)
    state = "Succeeded" if succeeded else ("Failed" if "F" in final else "Stopped")
    return replace(node, state=state, ranks=final, reason="")


def within_limit(nodes: tuple[NodeStatus, ...], limit: int = BYTES_LIMIT) -> tuple[tuple[NodeStatus, ...], bool]:
    """The nodes in `limit` bytes of JSON, and whether some had to be left out.

    First what each rank uses is left out, then nodes: rank 0 and those that do not run are kept first.
    """
    most_ranks = max((len(node.ranks) for node in nodes), default=0)
    if len(nodes) * (_MOST_BYTES + _MOST_BYTES_OF_A_RANK * most_ranks) <= limit:
        return nodes, False
    if _bytes(nodes) <= limit:
        return nodes, False
    return _cut(tuple(replace(node, rank_cpu_percent=(), rank_memory_bytes=()) for node in nodes), limit)


def _cut(nodes: tuple[NodeStatus, ...], limit: int) -> tuple[tuple[NodeStatus, ...], bool]:
    sizes = {node.name: _bytes([node]) for node in nodes}
    if sum(sizes.values()) <= limit:
        return nodes, False
    kept, room = set(), limit
    for node in sorted(nodes, key=lambda node: (node.rank != 0, node.state == "Running")):
        room -= sizes[node.name]
        if room < 0:
            break
        kept.add(node.name)
    return tuple(node for node in nodes if node.name in kept), True


def _bytes(nodes: Iterable[NodeStatus]) -> int:
    return sum(len(json.dumps(codec.write(node))) + 2 for node in nodes)
