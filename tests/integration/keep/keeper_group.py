"""Nodes with a real keeper each, and a leader's decisions about their rounds, without agents and etcd."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.messages import (
    BeginRequest,
    JoinRequest,
    OpenRequest,
    PeerRecord,
    PeersRequest,
    ProgressUpdate,
)
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.node.keep_settings import TlsFiles
from elasticjob_agent.rendezvous.protocol.keep.history import close_history
from elasticjob_agent.rendezvous.protocol.keep.restore_choice import RestoreDecision, choose_restore
from elasticjob_agent.rendezvous.protocol.keep.shift import Place, choose_shift
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member
from testing.waiting import aeventually
from tests.integration.keep.keepers import JOB, RUN
from tests.integration.keep.parts import contents, publish

HOST = "127.0.0.1"
SECRET = "5e" * 32


@dataclass(eq=False)
class GroupNode:
    """One node: its volume and its keeper."""

    member: Member
    volume: Path
    client: KeeperClient
    notices: list[str]
    incoming: Path = Path()
    kept: Path | None = None
    """The directory of the step that its workers restore."""
    progress: list[ProgressUpdate] = field(default_factory=list)
    claimed: dict[KeptStep, frozenset[int]] = field(default_factory=dict)
    """Parts that its record names, though it has none of them."""

    @property
    def record(self) -> HoldingsRecord:
        """The record of its holdings in etcd."""
        return HoldingsRecord(port=self.client.port, steps={**self.client.holdings, **self.claimed})

    @property
    def address(self) -> Address:
        """The address of its keeper."""
        return Address(HOST, self.client.port)

    @property
    def committed(self) -> KeptStep | None:
        """The newest step that its keeper knows to be committed."""
        return self.client.progress.committed

    def publish(self, name: str, files: Mapping[str, bytes]) -> None:
        """Publish as a script does."""
        publish(self.incoming, name, files)

    def files(self, step: KeptStep, index: int) -> dict[str, bytes]:
        """Return the files of a held part."""
        lineage = self.volume / "held" / str(step.lineage)
        return contents(lineage / str(step.number) / f"{index}-of-{step.parts}")

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the keeper."""
        os.kill(self.client.pid or 0, how)


class KeeperGroup:
    """The nodes of one job; the first member of a round leads it."""

    def __init__(
        self,
        folder: Path,
        *,
        copies: int = 1,
        bandwidth: int = 0,
        persist_to: Path | None = None,
        persist_every_s: float = 0.05,
        persist_keep: int = 2,
        tls: TlsFiles | None = None,
        first_round: int = 1,
    ) -> None:
        self.folder = folder
        self.tls = tls
        self.persist_to = persist_to
        self.persist_every_s = persist_every_s
        self.persist_keep = persist_keep
        self.copies = copies
        self.bandwidth = bandwidth
        self.history = History()
        self.lineage: Lineage | None = None
        self.members: list[GroupNode] = []
        self._nodes: list[GroupNode] = []
        self._incarnations = itertools.count(1)
        self._rounds = itertools.count(first_round)
        self._shift = 0

    async def add(
        self,
        slot: int,
        *,
        secret: str = SECRET,
        run: str = RUN,
        size_limit: int | None = None,
        persist_to: Path | None = None,
        persisted_step: int | None = None,
        stall_s: float = 60.0,
        tls: TlsFiles | None = None,
        keeper: type[KeeperClient] = KeeperClient,
    ) -> GroupNode:
        """Start a node with an empty volume, and with other certificates or another shared directory if given."""
        incarnation = f"{next(self._incarnations):08x}"
        volume = self.folder / incarnation
        notices: list[str] = []
        files = {} if (used := tls or self.tls) is None else asdict(used)
        shared = persist_to or self.persist_to
        opened = OpenRequest(
            str(volume),
            JOB,
            run,
            size_limit,
            host=HOST,
            persist_to="" if shared is None else str(shared),
            persist_every_s=self.persist_every_s,
            persist_keep=self.persist_keep,
            persisted_step=persisted_step,
            persist_stall_s=stall_s,
            **files,
        )
        client = keeper(opened, on_notice=notices.append, first_pause_s=0.01, last_pause_s=0.05)
        node = GroupNode(Member(slot, incarnation), volume, client, notices)
        self._nodes.append(node)
        await client.start()
        await client.join(JoinRequest(run, node.member.token, secret))
        return node

    async def lose(self, node: GroupNode) -> None:
        """End a node and its volume, as if its machine were lost."""
        self._nodes.remove(node)
        if node in self.members:
            self.members.remove(node)
        node.kill()
        await node.client.close()

    async def round(
        self,
        *members: GroupNode,
        others: Sequence[GroupNode] = (),
        leads: GroupNode | None = None,
        in_place: PersistedStep | None = None,
    ) -> None:
        """Close a round with these members: choose the restored step as a leader does, fetch it, start all workers.

        `in_place` is a persisted step that they read instead.
        """
        await self.begin(*members, others=others, leads=leads, in_place=in_place)
        for node in members:
            node.client.report_start()

    async def begin(
        self,
        *members: GroupNode,
        others: Sequence[GroupNode] = (),
        leads: GroupNode | None = None,
        in_place: PersistedStep | None = None,
    ) -> None:
        """As `round`, but without the start. `others` hold parts and are no members."""
        live = [*members, *others]
        for node in live:
            await node.client.seal()
        if self.lineage is not None:
            self.history = self.history.with_lineage(self.lineage)
        records = {node.member: node.record for node in live}
        hosts = {node.member: f"host{node.member.slot}" for node in live}
        decision = choose_restore(self.history, records, hosts, copies=self.copies)
        if in_place is not None:
            decision = RestoreDecision(history=close_history(self.history, in_place.step, ()))
        self.history = decision.history
        number = next(self._rounds)
        self.lineage = Lineage(number, f"{number:08x}")
        self.members = list(members)
        self._shift = choose_shift([Place(hosts[node.member]) for node in members], self.copies, self._shift)
        for rank, node in enumerate(members):
            place = RoundPlace(rank, len(members), rank, 1, len(members))
            node.incoming = await node.client.begin_round(
                BeginRequest(
                    RUN,
                    self.lineage,
                    self.history,
                    decision.step,
                    place,
                    self._shift,
                    self.copies,
                    self.bandwidth,
                    in_use="" if in_place is None else str(in_place),
                )
            )
        self.set_peers(leads or members[0], leaving=others)
        await asyncio.gather(*(self._restore(node, decision.step, live) for node in members))
        if in_place is not None:
            for node in members:
                node.kept = await node.client.fetch(in_place.step, {}, 30.0, run=in_place.run)

    async def _restore(self, node: GroupNode, step: KeptStep | None, live: Sequence[GroupNode]) -> None:
        if step is None:
            node.kept = None
            return
        sources = {
            index: [other.address for other in live if index in other.record.steps.get(step, ())]
            for index in range(step.parts)
        }
        node.kept = await node.client.fetch(step, sources, 30.0)

    def set_peers(self, leads: GroupNode, *, leaving: Sequence[GroupNode] = ()) -> None:
        """Let all keepers know the peers."""
        assert self.lineage is not None
        members, leavers = (
            tuple(PeerRecord(node.member.token, HOST, node.client.port, f"host{node.member.slot}") for node in nodes)
            for nodes in (self.members, leaving)
        )
        for node in self.members:
            node.client.set_peers(PeersRequest(self.lineage, members, node is leads, leavers))

    def step(self, number: int, parts: int | None = None) -> KeptStep:
        """Return a step of this round, with a part for each member unless `parts` is given."""
        assert self.lineage is not None
        return KeptStep(self.lineage, number, parts or len(self.members))

    def publish(self, number: int, size: int = 100_000) -> dict[int, dict[str, bytes]]:
        """Let each member publish its part; return the files by index."""
        parts = {index: {f"part{index}": os.urandom(size)} for index in range(len(self.members))}
        for index, node in enumerate(self.members):
            node.publish(f"step-{number}.{index}-of-{len(self.members)}", parts[index])
        return parts

    async def until_committed(self, step: KeptStep, *nodes: GroupNode) -> None:
        """Return when these nodes, or all members, know that the step is committed."""
        for node in nodes or self.members:
            await aeventually(
                lambda node=node: node.committed == step,
                what=f"{step} is committed at slot {node.member.slot}",
            )

    async def close(self) -> None:
        """End all keepers and delete their volumes."""
        for node in self._nodes:
            await node.client.close(erase=True)


@asynccontextmanager
async def keeper_group(folder: Path, **options: Any) -> AsyncIterator[KeeperGroup]:
    """Return an empty group, which is closed at the end."""
    group = KeeperGroup(folder, **options)
    try:
        yield group
    finally:
        await group.close()
