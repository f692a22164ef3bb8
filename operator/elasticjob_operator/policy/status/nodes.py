"""`status.nodes`: one entry per slot, with its pod, its rank in the active round, and one letter per worker.

The entries of a running job follow the slot map. Those of an ended job follow the members of the last round. By then
agents have removed their reports, and a failure has emptied the slot map.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from elasticjob_api import codec
from elasticjob_api.job import nproc_per_node
from elasticjob_api.records import NodeRecord
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_api.status import NodeStatus
from elasticjob_operator.model.slot_pod import SlotPod
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.status.keep import node_keep_status
from elasticjob_operator.policy.status.worker_start import start_status
from elasticjob_operator.policy.status.worker_states import final_states, same_states, states_of

_SEVERAL = 2
_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1
BYTES_LIMIT = 128 * 1024
"""Limit for all entries as JSON: the object must stay far below the API server's limit."""
_MAX_BYTES, _MAX_BYTES_PER_RANK = 2048, 34
"""No entry is longer (names of at most 253 bytes; letter, CPU and memory per rank). So most jobs are not measured."""


def node_statuses(snapshot: JobSnapshot) -> tuple[NodeStatus, ...]:
    """Return an entry for every node of the job, by slot."""
    state = snapshot.view.state
    if state is not None and state.phase.is_final:
        return tuple(_last_nodes(snapshot, state))
    round_ = _active_round(snapshot)
    return tuple(_node(snapshot, slot, owner, round_) for slot, owner in sorted(snapshot.owners.items()))


@dataclass(frozen=True, slots=True)
class _Round:
    """The members of the active round, indexed so that each node's lookup is fast."""

    ranks: Mapping[Member, int]
    slots: frozenset[int]


def _active_round(snapshot: JobSnapshot) -> _Round:
    members = snapshot.view.active_state.members if snapshot.view.active_state else ()
    ranks = {member: rank for rank, member in enumerate(members)}
    return _Round(ranks, frozenset(member.slot for member in members))


def _node(snapshot: JobSnapshot, slot: int, owner: SlotPod, round_: _Round) -> NodeStatus:
    agent = snapshot.slot_agents.get(slot)
    rank = round_.ranks.get(agent) if agent else None
    report = snapshot.view.reports.get(agent) if agent else None
    session = snapshot.view.nodes[agent].record if agent else None
    was_member = slot in round_.slots
    unreported = same_states("U" if was_member else "P", nproc_per_node(snapshot.job.spec))
    ranks = (states_of(report) if report else "") or unreported  # a node that waits reports before it has workers
    samples = snapshot.view.samples.get(agent) if agent else None
    cpu, memory = (samples.cpu_percent[: len(ranks)], samples.memory_bytes[: len(ranks)]) if samples else ((), ())
    return NodeStatus(
        name=f"{snapshot.job.metadata.name}-{slot}",
        pod_name=owner.name,
        node_name=owner.pod.node_name if owner.pod else "",
        rank=rank,
        state=_state(owner, session, rank, ranks, lost=was_member and agent is None),
        ranks=ranks,
        reason=owner.pod.reason if owner.pod else "",
        cpu_percent=_total(cpu, _INT32),
        memory_bytes=_total(memory, _INT64),
        rank_cpu_percent=_per_rank(cpu, _INT32),
        rank_memory_bytes=_per_rank(memory, _INT64),
        start=start_status(report),
        keep=node_keep_status(samples),
    )


_Samples = Sequence[float | None]


def _total(samples: _Samples, most: int) -> int | None:
    """Return the sum for the workers of a node, within the status field's range; None without samples."""
    known = [sample for sample in samples if sample is not None]
    return _clamp([sum(known)], most)[0] if known else None


def _per_rank(samples: _Samples, most: int) -> tuple[int, ...]:
    """Return the value of each worker; empty if the total already shows it."""
    if len(samples) < _SEVERAL or all(sample is None for sample in samples):
        return ()
    return _clamp([sample or 0 for sample in samples], most)


def _clamp(samples: Sequence[float], most: int) -> tuple[int, ...]:
    """Return whole numbers within the status field's range."""
    # A large job has a hundred thousand samples: no function call for each.
    if min(samples) < 0 or max(samples) > most:
        samples = [max(0, min(most, sample)) for sample in samples]
    return tuple(map(round, samples))


def _state(owner: SlotPod, session: NodeRecord | None, rank: int | None, ranks: str, *, lost: bool) -> str:
    if session is None:
        running = owner.pod is not None and owner.pod.phase == "Running"
        return "Lost" if lost else ("Joining" if running else "Pending")
    if session.leaving:
        return "Stopping"
    return "Waiting" if rank is None else _state_of_member(ranks)


def _state_of_member(ranks: str) -> str:
    if "F" in ranks:
        return "Failed"
    return {"R": "Running", "CR": "Running", "C": "Succeeded"}.get("".join(sorted(set(ranks))), "Starting")


def _last_nodes(snapshot: JobSnapshot, state: RendezvousState) -> Iterable[NodeStatus]:
    before = {node.name: node for node in snapshot.status.nodes}
    members = snapshot.view.membership.members if snapshot.view.membership else ()
    by_name = {f"{snapshot.job.metadata.name}-{member.slot}": (rank, member) for rank, member in enumerate(members)}
    if not by_name:
        return [_final(node, state, node.ranks) for node in before.values()]
    failed = _failed(snapshot)
    last = sorted(by_name.items(), key=_by_slot)
    nodes = ((ranked[1].slot, _last_node(snapshot, name, ranked, before.get(name))) for name, ranked in last)
    return [_final(node, state, _with_failures(node.ranks, failed.get(slot))) for slot, node in nodes]


def _by_slot(item: tuple[str, tuple[int, Member]]) -> int:
    return item[1][1].slot


def _last_node(snapshot: JobSnapshot, name: str, ranked: tuple[int, Member], before: NodeStatus | None) -> NodeStatus:
    rank, member = ranked
    owner = snapshot.view.owners().get(member.slot, "")
    known = before or NodeStatus(name=name, pod_name=owner)
    if owner and known.pod_name != owner:  # replaced since the status was last written
        known = NodeStatus(name=name, pod_name=owner)
    report = snapshot.view.reports.get(member) or snapshot.job_state.last_seen.reports.get(member)
    reported = states_of(report) if report else ""  # empty in a report between two rounds
    ranks = reported or known.ranks or same_states("U", nproc_per_node(snapshot.job.spec))
    pod = snapshot.pods.get(known.pod_name)
    node_name, start = pod.node_name if pod else known.node_name, start_status(report) or known.start
    keep = node_keep_status(snapshot.samples.get(member)) or known.keep
    return replace(known, rank=rank, node_name=node_name, ranks=ranks, start=start, keep=keep)


def _failed(snapshot: JobSnapshot) -> Mapping[int, AbstractSet[int]]:
    """Return slot → local ranks with a failure record in the last round; the records outlive the reports."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    round_ = snapshot.view.membership.round if snapshot.view.membership else None
    for key in snapshot.view.failures:
        if key.round == round_:
            found[key.slot].add(key.local_rank)
    return found


def _with_failures(ranks: str, failed: AbstractSet[int] | None) -> str:
    """Return the states with F for each failed local rank."""
    if not failed:  # most nodes: a job may have a thousand workers on each of 65,535 nodes
        return ranks
    return "".join("F" if i in failed else letter for i, letter in enumerate(ranks))


def _final(node: NodeStatus, state: RendezvousState, ranks: str) -> NodeStatus:
    succeeded = state.phase is RoundPhase.SUCCEEDED
    final = final_states(ranks, succeeded=succeeded)
    ended = "Succeeded" if succeeded else ("Failed" if "F" in final else "Stopped")
    return replace(node, state=ended, ranks=final, reason="")


def within_limit(nodes: tuple[NodeStatus, ...], limit: int = BYTES_LIMIT) -> tuple[tuple[NodeStatus, ...], bool]:
    """Return the nodes that fit into `limit` bytes of JSON, and whether nodes were left out.

    The usage of each rank, starts and kept steps are left out first, then nodes. Rank 0 and nodes that do not run stay
    longest.
    """
    most_ranks = max((len(node.ranks) for node in nodes), default=0)
    if len(nodes) * (_MAX_BYTES + _MAX_BYTES_PER_RANK * most_ranks) <= limit:
        return nodes, False
    if _drop_until_fitting(nodes, limit) == len(nodes):
        return nodes, False
    by_need = sorted(nodes, key=lambda node: (node.rank != 0, node.state == "Running"))
    fitting = _drop_until_fitting(map(_without_details, by_need), limit)
    names = {node.name for node in by_need[:fitting]}
    return tuple(_without_details(node) for node in nodes if node.name in names), fitting < len(nodes)


def _without_details(node: NodeStatus) -> NodeStatus:
    return replace(node, rank_cpu_percent=(), rank_memory_bytes=(), start=None, keep=None)


def _drop_until_fitting(nodes: Iterable[NodeStatus], limit: int) -> int:
    """Return how many of the first nodes fit; the rest is not measured, so that the cost is bounded."""
    totals = itertools.accumulate(len(json.dumps(codec.write(node))) + 2 for node in nodes)
    return sum(1 for _ in itertools.takewhile(lambda total: total <= limit, totals))
