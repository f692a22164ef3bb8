"""The steps that one node keeps: `KeepPort` over the client of this agent's keeper.

A keeper may fail at any time. Then this node keeps no step in the round, and training goes on. Only a step that the
round restores is waited for, up to the limit of the job. Peers are read from etcd beside the training.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.errors import KeeperError, KeeperSilentError
from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.keep.keeper.persist_messages import PersistUpdate
from elasticjob_agent.keep.keeper_connection import START_S
from elasticjob_agent.keep.rules.persisting import newest_of_lineages
from elasticjob_agent.monitoring.last_report import LastReport
from elasticjob_agent.node import keep_requests
from elasticjob_agent.node.commit_meter import CommitMeter
from elasticjob_agent.node.keep_report import keep_report, late_reason, waiting_for_keeper
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keeper_identity import KeeperIdentity
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_agent.node.memory_source import MemorySource
from elasticjob_agent.node.no_shared_dir import NoSharedDir
from elasticjob_agent.node.node_departure import NodeDepartureWait
from elasticjob_agent.node.prepared_round import PreparedRound, cancel
from elasticjob_agent.node.shared_dir import SharedDir
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_to_restore
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_agent.rendezvous.protocol.ranks import rank_of
from elasticjob_api import constants
from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import MAX_OLDER, HoldingsRecord
from elasticjob_api.kept_steps import PersistedStep
from elasticjob_api.records import KeepReport
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_etcd.errors import EtcdError, RequestRejected

_BEGIN_S = 2.0
"""Seconds that a round without a step to restore waits for the keeper; it needs a millisecond."""
_PEERS_AFTER_S = 0.25
"""Seconds from a start to the look for peers: the workers that start need the processors, and publish nothing yet."""
_RETRY_S = 2.0
_RETRY_AT_MOST_S = 30.0
"""Seconds between two looks for peers that have no record, at most: a node may have no keeper."""
_LATE_S = 2.0
"""Seconds after which a restore is reported; most take milliseconds."""
_AGAIN_S = 0.5
"""Seconds between two tries to begin a round that restores a step, while the keeper is being replaced."""
_LOOK_S = 5.0
"""Seconds between looks whether any node stays that could need the steps of this one."""
_LOOK_TO_DRAIN_S = 1.0
"""The same where a node that finds none writes its steps to disk."""
_FAULTS = (RecordError, KeeperError, EtcdError, TimeoutError)

log = logging.getLogger(__name__)


class NodeKeep(KeepPort):
    """The kept steps of one node."""

    def __init__(self, volume: OpenRequest, lister: KeeperLister, settings: KeepSettings) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_report: Callable[[], None] = lambda: None
        """Called when something in `report` is news that cannot wait."""
        self.last_report = LastReport(self.report)
        self._commits = CommitMeter(clock=time.monotonic, wall_ns=time.time_ns)
        self._keeper = KeeperClient(
            volume,
            on_holdings=self._commits.note_holdings,
            on_notice=lambda sentence: log.warning("kept steps: %s", sentence),
            on_progress=lambda _: self._notice_progress(),
            on_persist=self._notice_persist,
        )
        self.persists, self.linger_s = settings.persist is not None, settings.linger_s
        self._lister = lister
        self._memory = MemorySource(self._keeper, lister, settings)
        self._settings = settings
        self._identity = KeeperIdentity(self._keeper)
        self._leads = False
        self._round: PreparedRound | None = None
        self._departure: NodeDepartureWait | None = None
        self._shared: SharedDir | NoSharedDir = NoSharedDir()
        if settings.persist is not None:
            self._shared = SharedDir(
                self._keeper, lister, settings.persist, settings, on_end=self._notify_change, spawn=self._spawn
            )
        self._shared.report_last = lambda: self.last_report.wait(self.on_report)
        self._shared.on_trouble = self._notify_report
        self._last_news: tuple[bool, ...] = (False, False, False)
        self._last_persist_news: tuple[str | bool, int] = (False, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None

    async def start(self) -> None:
        """Start the keeper, and return when it has scanned the volume, or another one tries to use it again.

        The shared directory is listed, too, unless it does not answer soon. Then the node waits for it in its job.
        """
        await self._keeper.start()
        await self._shared.wait_listed()

    # --- for the rendezvous ------------------------------------------------------------------------------------------

    @property
    def holdings(self) -> HoldingsRecord | None:
        """The parts that this node has, as last known; None if no other node needs to know of its keeper."""
        # Also without one, a node with a shared directory shows whether it has listed that.
        if not self._keeper.port and self._shared.has_listed is None:
            return None
        steps = newest_of_lineages(self._shared.eligible)
        return HoldingsRecord(
            port=self._keeper.port,
            steps=self._keeper.holdings if self._keeper.port else {},
            persisted=next(iter(steps), None),
            older=tuple(steps[1 : 1 + MAX_OLDER]),
            has_listed=self._shared.has_listed,
        )

    async def seal(self) -> None:
        """Take in all that the stopped workers have published."""
        self._end_round()
        await self._keeper.seal()

    def observe(self, me: Member, *, link_secret: bytes | None, leads: bool) -> None:
        """Take in what the keeper and its peers need to know of this node. Raises the error of an internal task."""
        if self._error is not None:  # an error of this code ends the agent: it is never ignored
            raise self._error
        is_news = self._identity.observe(me, link_secret) or leads != self._leads
        self._leads = leads
        if is_news and self._round is not None and self._round.has_started:
            self._introduce(self._round)
        if is_news and self.is_waiting:
            self.on_report()

    def restore_phase(self, state: RendezvousState) -> RestorePhase:
        """Return how far this node is with this state; for a new active one, begin to prepare the round."""
        self._shared.observe(state, self._identity.me)
        if state.phase is not RoundPhase.ACTIVE or self._identity.me is None:
            self._end_round()
            if self._identity.note_forming(state):
                self._spawn(self._identity.join_early(state))
            return RestorePhase.NOT_NEEDED
        known = self._round
        if known is None or (known.state.round, known.state.nonce) != (state.round, state.nonce):
            self._end_round()
            known = self._round = PreparedRound(state, rank_of(state, self._identity.me))
            known.task = self._spawn(self._prepare(known))
        return known.phase

    def report_start(self) -> None:
        """Allow the keeper to drop and copy steps, and look for its peers: before the start that would delay it."""
        self._keeper.report_start()
        if self._round is not None and self._round.rank is not None:
            self._round.has_started = True
            self._introduce(self._round)

    def lingers(self, state: RendezvousState) -> bool:
        """Return whether others may need what this node has, or its steps are written to disk."""
        if state.phase is RoundPhase.SUSPENDED or state.phase.is_final:
            return self._shared.drains(state, self._identity.me)
        if state.phase not in {RoundPhase.FORMING, RoundPhase.ACTIVE} or not self._settings.linger_s:
            self.stop_lingering()
            return False
        if self._departure is None:
            self._departure = NodeDepartureWait(
                self._keeper,
                self._lister,
                join=self._identity.join,
                within_s=self._settings.linger_s,
                look_s=_LOOK_TO_DRAIN_S if self.persists else _LOOK_S,
                on_end=self._notify_change,
                spawn=self._spawn,
            )
        self._departure.observe(state, self._identity.me)
        if self._departure.is_over:
            return self._departure.is_last and self._shared.drains(state, self._identity.me)
        if self.persists and state.phase is RoundPhase.FORMING and self._departure.is_late:
            # The nodes that stay may be too few for a round. Then the steps of this node would go with it.
            drains = self._shared.drains(state, self._identity.me, self._departure.left_s)
            if not drains and not self._shared.lost:
                self._departure.stop()
        return not self._departure.is_over

    # --- for the rest of the agent -----------------------------------------------------------------------------------

    def variables(self) -> Mapping[str, str]:
        """Return the variables of Keep for the workers of the present round."""
        return {} if self._round is None else self._round.variables

    def report(self) -> KeepReport:
        """Return what this node knows and holds, for the status; let the keeper show that it does not hang."""
        self._keeper.check()
        known = self._round
        return replace(
            keep_report(
                self._keeper, self._commits, next(iter(self._shared.eligible), None), known.not_kept if known else ""
            ),
            size_limit_bytes=self._settings.size_limit or 0,
            persist_error=self._shared.lost or self._waits_for or self._keeper.persist.error,
            is_waiting=self.is_waiting,
            restoring=self.restoring,
        )

    @property
    def restoring(self) -> int | None:
        """The number of the step for which the workers of this node wait; None: they wait for none."""
        return None if self._round is None else self._round.restoring

    @property
    def is_waiting(self) -> bool:
        """Whether this node runs no worker, because it waits for the shared directory."""
        return bool(self._waits_for)

    @property
    def _waits_for(self) -> str:
        known = self._round
        if known is None:
            return self._shared.trouble
        if known.has_started or known.phase is RestorePhase.COMPLETE:
            return ""
        return (known.phase is RestorePhase.PREPARING and known.awaited_keeper) or self._shared.trouble

    def _notice_progress(self) -> None:
        """Report soon if the first step is committed, or if the keeper is degraded or no longer so."""
        progress = self._keeper.progress
        self._commits.note_committed(progress.committed)
        news = progress.committed is not None, bool(progress.degraded), bool(self._keeper.refused)
        if news != self._last_news:
            self._last_news = news
            self.on_report()

    def _notify_change(self) -> None:
        self.on_change()

    def _notify_report(self) -> None:
        self.on_report()

    def _notice_persist(self, update: PersistUpdate) -> None:
        self._shared.note_list()
        self._notify_change()  # a round that forms needs to know what is on disk
        news = update.error if self.is_waiting else bool(update.error), len(update.steps)
        if news != self._last_persist_news:
            self._last_persist_news = news
            self.on_report()

    def stop_lingering(self) -> None:
        """Serve other nodes no longer, and write no more steps to disk."""
        self.linger_s = 0.0
        self._shared.stop()
        if self._departure is not None:
            self._departure.stop()

    async def close(self, *, erase: bool) -> None:
        """End the keeper; with `erase`, give its memory up."""
        for task in self._tasks:
            task.cancel()
        await self._keeper.close(erase=erase)

    # --- rounds ------------------------------------------------------------------------------------------------------

    async def _prepare(self, known: PreparedRound) -> None:
        state = known.state
        late = asyncio.get_running_loop().call_later(_LATE_S, self._notify_report) if state.restore else None
        try:
            # A restore has limits of its own: for the keeper, for the memory of others, and for the shared directory.
            async with asyncio.timeout(None if state.restore else _BEGIN_S):
                known.phase = await (self._enter_patiently(known) if state.restore else self._enter(known))
        except _FAULTS as error:
            reason = str(error) or late_reason(state, self._settings.restore_timeout_s)
            if state.restore:
                log.warning("round %d: step %s cannot be restored: %s", state.round, state.restore, reason)
            else:
                known.not_kept = f"steps of round {state.round} are not kept on this node: {reason}"
                log.warning("%s", known.not_kept)
                self.on_report()
            known.phase = RestorePhase.FAILED if state.restore else RestorePhase.NOT_NEEDED
        finally:
            if late is not None:
                late.cancel()
        self.on_change()

    async def _enter_patiently(self, known: PreparedRound) -> RestorePhase:
        """Enter the round as soon as a keeper answers, within the time that one needs to start; raise one of _FAULTS.

        A step is given up for good if it cannot be restored. A keeper that is being replaced is no fault of the step.
        Neither is an etcd that does not answer. It is waited for as long as this node has its session. So is a keeper
        if the step is on disk: no node of a job with such a step lets the training begin below it.
        """
        is_on_disk = persisted_to_restore(known.state) is not None
        until_s = math.inf if is_on_disk else asyncio.get_running_loop().time() + START_S
        while True:
            try:
                return await self._enter(known)
            except (KeeperError, EtcdError) as error:
                is_of_keeper = known.phase is RestorePhase.PREPARING or isinstance(error, KeeperSilentError)
                may_answer = is_of_keeper and asyncio.get_running_loop().time() < until_s
                is_of_etcd = isinstance(error, EtcdError) and not isinstance(error, RequestRejected)
                if not (may_answer or is_of_etcd):
                    raise
                log.warning("round %d: %s; the step is not given up yet", known.state.round, error)
                if is_on_disk:
                    known.awaited_keeper = waiting_for_keeper(self._keeper.refused or str(error))
                    self.on_report()
            known.phase = RestorePhase.PREPARING
            await asyncio.sleep(_AGAIN_S)

    async def _enter(self, known: PreparedRound) -> RestorePhase:
        """Begin the round in the keeper, and restore its step; raise one of _FAULTS."""
        state, me = known.state, self._identity.me
        if not state.run:
            return RestorePhase.FAILED if state.restore else RestorePhase.NOT_NEEDED
        await self._identity.join(state, is_needed=known.rank is None)
        if known.rank is None or me is None:
            return RestorePhase.NOT_NEEDED
        begun = keep_requests.begin_request(state, known.rank, self._settings)
        step, persisted = state.step_to_restore(), persisted_to_restore(state)
        link = self._memory.begin_to_link(step) if step is not None and persisted is None else None
        try:
            variables = {constants.ENV_KEEP: str(await self._keeper.begin_round(begun))}
            if step is not None:
                known.phase = RestorePhase.FETCHING
                if persisted is None:
                    on_disk = PersistedStep(state.run, step)
                    restored = self._memory.restore(state, me, step, link, is_on_disk=lambda: self._shared.has(on_disk))
                    directory = await self._shared.find_unless(restored, on_disk)
                else:
                    directory = await self._shared.find(persisted)
                variables[constants.ENV_KEPT] = str(directory)
                variables[constants.ENV_KEPT_STEP] = str(step.number)
                log.info("round %d: kept step %d is here, from round %d", state.round, step.number, step.lineage.round)
            elif state.round > 1:
                log.info("round %d: no kept step is restored", state.round)
        finally:
            cancel(link)
        known.variables = variables
        return RestorePhase.NOT_NEEDED if step is None else RestorePhase.COMPLETE

    def _end_round(self) -> None:
        if self._round is not None:
            cancel(self._round.task)
            cancel(self._round.peers)
            self._round = None

    # --- peers -------------------------------------------------------------------------------------------------------

    def _introduce(self, known: PreparedRound) -> None:
        """Let the keeper know its peers soon."""
        if known.variables or known.not_kept:  # a leader without steps of its own commits those of the others
            cancel(known.peers)
            known.peers = self._spawn(self._find_peers(known))

    async def _find_peers(self, known: PreparedRound) -> None:
        leads, sent, pause_s = self._leads, None, _RETRY_S
        await asyncio.sleep(_PEERS_AFTER_S)
        while True:
            try:
                await self._identity.join(known.state)
                needed = keep_requests.members_to_find(known.state, known.rank or 0, self._settings.copies)
                found = await (self._lister.list_all() if leads else self._lister.find(needed))
                peers = keep_requests.peers_request(known.state, found, leads=leads)
                if peers != sent:  # the same one again would only open the commit channel anew
                    self._keeper.set_peers(peers)
                    sent = peers
                # A member whose session is lost has no record until it rejoins.
                if keep_requests.are_reachable(known.state.members if leads else needed, found):
                    return
            except _FAULTS as error:
                log.debug("the addresses of peers are not known yet, trying again: %s", error)
                pause_s = _RETRY_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_AT_MOST_S)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine, name="keep")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self.on_change()
