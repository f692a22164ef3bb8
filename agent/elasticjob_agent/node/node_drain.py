"""The last steps of a job whose nodes all end: each node writes its share of the newest whole step to disk.

No leader is left to order that. So each node reads the same records from etcd, and decides by the same rule. A node
that reads others has written its own share twice at worst.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.errors import KeeperError, KeeperSilentError
from elasticjob_agent.keep.rules.persisting import parts_to_write
from elasticjob_agent.node.keeper_lister import KeeperEntry, KeeperLister
from elasticjob_agent.rendezvous.protocol.keep.restore_choice import choose_restore
from elasticjob_agent.rendezvous.protocol.keep.sources import assign_sources
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, KeptStep
from elasticjob_api.rendezvous_state import Member
from elasticjob_etcd.errors import EtcdError

_LOOK_S = 0.5
"""Seconds between looks at the records of others, and the same for each of `_NODES_OF_A_LOOK` nodes."""
_NODES_OF_A_LOOK = 50
_LEAST_S = 0.1
"""Seconds that a try needs. In less, it could only replace the cause of the last failure by its own lack of time."""
_WAITING_SHARE = 0.5
"""The share of the time that a node waits for the records of others."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndingJob:
    """A job whose nodes all end, for now or for good."""

    run: str
    history: History
    """The steps that the training descends from."""
    nonce: str
    """That of the state that ends it."""


class NodeDrain:
    """One drain of one node."""

    def __init__(
        self, keeper: KeeperClient, lister: KeeperLister, me: Member, *, ending: EndingJob, within_s: float
    ) -> None:
        self._keeper = keeper
        self._lister = lister
        self._me = me
        self._ending = ending
        self._within_s = within_s
        self._written: set[tuple[KeptStep, int]] = set()
        self._newest: KeptStep | None = None
        """The step to write."""
        self._trouble = ""
        """Why the last try failed."""
        self._logged: set[str] = set()

    async def run(self) -> str:
        """Return when the newest step is whole on disk, or when the time is over; then why it is not there.

        The reason is a sentence without its full stop; it is empty if nothing is lost.
        """
        clock = asyncio.get_running_loop().time
        wait_until_s, deadline_s = clock() + _WAITING_SHARE * self._within_s, clock() + self._within_s
        is_over = False
        while not is_over and clock() < deadline_s:
            try:
                keepers = self._with_own(await self._lister.list_all())
                if (left_s := deadline_s - clock()) < _LEAST_S:
                    break
                if clock() >= wait_until_s or all(each.sealed == self._ending.nonce for each in keepers.values()):
                    is_over = await self._write(keepers, left_s)
                self._trouble = ""
            except (KeeperError, EtcdError, RecordError) as error:
                self._trouble = "it was still being written" if isinstance(error, KeeperSilentError) else str(error)
                keepers = {}
                self._log_once(f"the last kept steps of this node are not on disk yet, trying again: {error}")
            # A node that is done waits for the others. Without its record they would choose another step.
            if not is_over:
                await asyncio.sleep(_LOOK_S * (1 + len(keepers) / _NODES_OF_A_LOOK))
        return "" if is_over else self._lost()

    def _with_own(self, keepers: Mapping[Member, KeeperEntry]) -> Mapping[Member, KeeperEntry]:
        """Add this node, whose record is gone if it has lost its session meanwhile."""
        if self._me in keepers:
            return keepers
        own = KeeperEntry(Address("", 0), "", self._keeper.holdings, is_leaving=True, sealed=self._ending.nonce)
        return {**keepers, self._me: own}

    def _log_once(self, sentence: str) -> None:
        if sentence not in self._logged:
            self._logged.add(sentence)
            log.warning("%s", sentence)

    def _lost(self) -> str:
        what = "the last steps were" if self._newest is None else f"step {self._newest.number} was"
        why = self._trouble or "other nodes have not written their parts"
        text = f"{what} not written to keep.persistTo in the {self._within_s:g} s that this node had at its end: {why}"
        log.warning("%s", text)
        return text

    async def _write(self, keepers: Mapping[Member, KeeperEntry], left_s: float) -> bool:
        """Write this node's share of the newest step; return whether nothing is left to do for any node.

        Raises:
            KeeperError: it could not be written.
        """
        step = self._newest = newest_in_memory(self._ending.history, keepers)
        if step is None or await self._look_on_disk(step, left_s):
            return True
        indices = [i for i in sorted(share_of(step, keepers, self._me)) if (step, i) not in self._written]
        await self._keeper.drain(step, indices, left_s)
        self._written.update((step, index) for index in indices)
        return self._has_whole(step)

    async def _look_on_disk(self, step: KeptStep, left_s: float) -> bool:
        """Return whether the shared directory has this step or a newer one; raise KeeperError.

        The others leave when their step is whole there. Then this node alone may find an older one in memory.
        """
        await self._keeper.drain(step, (), left_s)  # without parts, it only lists the directory
        return self._has_whole(step)

    def _has_whole(self, least: KeptStep) -> bool:
        ending, found = self._ending, self._keeper.persisted_steps()
        return any(
            each.run == ending.run and ending.history.is_alive(each.step) and each.step >= least for each in found
        )


def newest_in_memory(history: History, keepers: Mapping[Member, KeeperEntry]) -> KeptStep | None:
    """Return the newest whole step of these nodes, None if there is none or the shared directory has it already."""
    records = {
        member: HoldingsRecord(port=each.address.port, steps=each.steps, persisted=each.persisted)
        for member, each in keepers.items()
    }
    hosts = {member: each.machine for member, each in keepers.items()}
    decision = choose_restore(history, records, hosts, copies=0)
    is_persisted = any(each.persisted is not None and each.persisted.step == decision.step for each in records.values())
    return None if decision.run or is_persisted else decision.step


def share_of(step: KeptStep, keepers: Mapping[Member, KeeperEntry], me: Member) -> frozenset[int]:
    """Return the parts of a step that this node writes."""
    held = {member: each.steps for member, each in keepers.items()}
    members = sorted(member for member, steps in held.items() if step in steps)
    return parts_to_write(assign_sources(step, members, held), step, members, me, held.get(me, {}).get(step, ()))
