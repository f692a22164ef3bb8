"""The addresses and holdings of the keepers of a job's nodes, from their records in etcd.

A member reads the records of a few nodes. Only the leader, and a node whose first sources have failed, read all.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import Holdings, PersistedStep
from elasticjob_api.keys import Keys
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_etcd.interface import Etcd, Get, Txn

_NODES_OF_A_READ = 60
"""Each has two keys; etcd allows 128 operations."""


@dataclass(frozen=True, slots=True)
class KeeperEntry:
    """The keeper of one live node."""

    address: Address
    """Its port is 0 if no other node can reach it."""
    machine: str
    """The name of its host."""
    steps: Holdings
    """The parts of its record: as they were when it joined, or last became ready."""
    is_leaving: bool
    persisted: PersistedStep | None = None
    """The newest step that it has found in the shared directory."""
    sealed: str = ""
    """The nonce of the state in which it adds nothing any more."""


class KeeperLister:
    """Reads the records of nodes."""

    def __init__(self, etcd: Etcd, keys: Keys) -> None:
        self._etcd = etcd
        self._keys = keys

    async def find(self, members: Collection[Member]) -> Mapping[Member, KeeperEntry]:
        """Return the keepers of those of these members that have one; raise EtcdError."""
        found: dict[Member, KeeperEntry] = {}
        wanted = sorted(members)
        for begin in range(0, len(wanted), _NODES_OF_A_READ):
            reads = [
                Get(key)
                for member in wanted[begin : begin + _NODES_OF_A_READ]
                for key in (
                    self._keys.node(member.slot, member.incarnation),
                    self._keys.holdings(member.slot, member.incarnation),
                )
            ]
            found.update(await self._read(*reads))
        return found

    async def list_all(self) -> Mapping[Member, KeeperEntry]:
        """Return the keepers of all live nodes; raise EtcdError."""
        return await self._read(Get(self._keys.nodes, prefix=True), Get(self._keys.all_holdings, prefix=True))

    async def count_others(self, me: Member) -> int:
        """Return how many other nodes than this one are here to stay; raise EtcdError."""
        view = parse_view(self._keys, (await self._etcd.range(self._keys.nodes)).kvs)
        return sum(member != me and not node.record.leaving for member, node in view.nodes.items())

    async def _read(self, *reads: Get) -> Mapping[Member, KeeperEntry]:
        result = await self._etcd.txn(Txn((), reads))
        return _entries(parse_view(self._keys, [kv for read in result.reads for kv in read]))


def _entries(view: RendezvousView) -> dict[Member, KeeperEntry]:
    return {
        member: KeeperEntry(
            address=Address(node.record.address, view.holdings[member].port),
            machine=node.record.host,
            steps=view.holdings[member].steps,
            is_leaving=node.record.leaving,
            persisted=view.holdings[member].persisted,
            sealed=view.holdings[member].sealed,
        )
        for member, node in view.nodes.items()
        if member in view.holdings
    }
