"""PURE: the order of nodes in a round, and from it every rank.

Nodes stand in order of (topology, slot): survivors keep their order over rounds, a replacement takes the place
of the one it replaces, and neighbours stay together. Global ranks are contiguous per node, role ranks are
contiguous per role in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from elasticjob_agent.rendezvous.view import LiveNode, View
from elasticjob_api.world import World, from_run_lengths, run_lengths

NPROC_MARK = "x"
ROLE_MARK = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One node's place in a round: all that its workers need to know."""

    round: int
    nonce: str
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


def in_order(view: View, nodes: Sequence[LiveNode]) -> list[LiveNode]:
    """`nodes` in rank order."""
    return sorted(nodes, key=lambda node: (view.topology(node), node.member.slot, node.member.incarnation))


def take(view: View, ready: Sequence[LiveNode], count: int) -> list[LiveNode]:
    """At most `count` of the ready nodes: members of the last active round first, then by slot."""
    previous = set(view.membership.members) if view.membership else set()
    preferred = sorted(ready, key=lambda node: (node.member not in previous, node.member.slot))
    return preferred[:count]


def code_shape(nodes: Sequence[LiveNode]) -> tuple[str, str]:
    """(nprocs, roles) of nodes in rank order, as the world carries them."""
    nprocs = run_lengths([str(node.record.nproc) for node in nodes], NPROC_MARK)
    # A role is the user's word and may hold a comma or a star.
    roles = run_lengths([quote(node.record.role, safe="") for node in nodes], ROLE_MARK)
    return nprocs, roles


def master_of(node: LiveNode) -> str:
    """`host:port` that rank 0's node offers; an IPv6 address in brackets."""
    address = node.record.address
    return f"[{address}]:{node.record.master_port}" if ":" in address else f"{address}:{node.record.master_port}"


def assignment(world: World, group_rank: int) -> Assignment:
    """The place of the node at `group_rank` of an ACTIVE world."""
    nprocs = [int(n) for n in from_run_lengths(world.nprocs, NPROC_MARK)]
    roles = [unquote(role) for role in from_run_lengths(world.roles, ROLE_MARK)]
    role = roles[group_rank]
    same_role = [n if r == role else 0 for n, r in zip(nprocs, roles, strict=True)]
    host, _, port = world.master.rpartition(":")
    return Assignment(
        round=world.round,
        nonce=world.nonce,
        group_rank=group_rank,
        group_world_size=len(nprocs),
        nproc=nprocs[group_rank],
        base_rank=sum(nprocs[:group_rank]),
        world_size=sum(nprocs),
        role=role,
        role_base_rank=sum(same_role[:group_rank]),
        role_world_size=sum(same_role),
        master_addr=host.strip("[]"),
        master_port=int(port),
        restart_count=world.restarts,
    )
