"""The order of nodes in a round, and all ranks that follow from it.

Nodes are ordered by (topology, slot). Members keep their order over rounds, a replacement takes the place of the node
that it replaces, and neighbours stay together. Global ranks are contiguous per node, role ranks are contiguous per role
in the same order.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from elasticjob_api.errors import RecordError
from elasticjob_api.keys import SLOT_LIMIT, FailureKey
from elasticjob_api.rendezvous_state import Member, RendezvousState, decode_layout
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView

_MAX_PORT_DIGITS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One node's part in a round: all that its workers need to know."""

    round: int
    nonce: str
    member: Member
    group_rank: int
    group_world_size: int
    nproc: int
    base_rank: int
    world_size: int
    role: str
    role_base_rank: int
    role_world_size: int
    master_addr: str
    master_port: int
    restart_count: int

    def failure_key(self, local_rank: int) -> FailureKey:
        """Return the key of a failure of this worker of the node."""
        return FailureKey(self.round, self.member.slot, local_rank)


def sort_nodes(view: RendezvousView, nodes: Sequence[NodeEntry]) -> list[NodeEntry]:
    """Return `nodes` in rank order."""
    return sorted(nodes, key=lambda node: (view.topology(node), node.member.slot, node.member.incarnation))


def select(view: RendezvousView, ready: Sequence[NodeEntry], count: int) -> list[NodeEntry]:
    """Return at most `count` of the ready nodes: members of the last active round first, then by slot."""
    previous = set(view.membership.members) if view.membership else set()
    preferred = sorted(ready, key=lambda node: (node.member not in previous, node.member.slot))
    return preferred[:count]


def master_of(node: NodeEntry) -> str:
    """Return `host:port` of the port that rank 0's node reserved, with brackets around an IPv6 address."""
    address = node.record.address
    return f"[{address}]:{node.record.master_port}" if ":" in address else f"{address}:{node.record.master_port}"


def rank_of(state: RendezvousState, member: Member) -> int | None:
    """Return the group rank of `member`; None if it is not in the round.

    Most members have their slot as rank, so that place is tried first.
    """
    members, slot = state.members, member.slot
    if slot < len(members) and members[slot] == member:
        return slot
    return next((rank for rank, other in enumerate(members) if other.slot == slot and other == member), None)


def assignment(state: RendezvousState, group_rank: int) -> Assignment:
    """Return the assignment of the node at `group_rank` of an active state; raise RecordError if it has none."""
    runs = _runs(state.nprocs, state.roles)
    nproc, role, _ = _run_of(runs, group_rank)
    same_role = [run for run in runs if run.role == role]
    host, _, port = state.master.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= _MAX_PORT_DIGITS):
        raise RecordError(f"master is {state.master!r:.60}, not host:port")
    return Assignment(
        round=state.round,
        nonce=state.nonce,
        member=state.members[group_rank],
        group_rank=group_rank,
        group_world_size=runs[-1].ranks.stop,
        nproc=nproc,
        base_rank=_workers_before(runs, before=group_rank),
        world_size=_workers_before(runs),
        role=role,
        role_base_rank=_workers_before(same_role, before=group_rank),
        role_world_size=_workers_before(same_role),
        master_addr=host.strip("[]"),
        master_port=int(port),
        restart_count=state.restarts,
    )


class _Run(NamedTuple):
    """Neighbours in rank order with the same process count and role. Most jobs are one run, whatever their size."""

    nproc: int
    role: str
    ranks: range


@functools.lru_cache(maxsize=4)
def _runs(nprocs: str, roles: str) -> tuple[_Run, ...]:
    runs: list[_Run] = []
    for (nproc, role), alike in itertools.groupby(decode_layout(nprocs, roles)):
        begin = runs[-1].ranks.stop if runs else 0
        runs.append(_Run(nproc, role, range(begin, begin + sum(1 for _ in alike))))
    return tuple(runs)


def _run_of(runs: Sequence[_Run], group_rank: int) -> _Run:
    for run in runs:
        if group_rank in run.ranks:
            return run
    raise RecordError(f"the node of rank {group_rank} has no workers")


def _workers_before(runs: Sequence[_Run], *, before: int | None = None) -> int:
    """Return the number of workers of all nodes of `runs`, or of those before a rank."""
    end = SLOT_LIMIT if before is None else before
    return sum(run.nproc * (min(run.ranks.stop, end) - min(run.ranks.start, end)) for run in runs)
