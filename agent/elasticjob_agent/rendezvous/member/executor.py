"""The steps of one node, carried out: each is one fenced transaction or one act on the workers.

A refused transaction shows in the same trip which fence failed. If the world moved, nothing is decided before the watch
shows it. If the own key is gone, the stay is over.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum

from elasticjob_agent.rendezvous.leader.election import Election
from elasticjob_agent.rendezvous.member.session import Stay
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.interfaces import WorkersPort
from elasticjob_agent.rendezvous.protocol.leader_plan import forming
from elasticjob_agent.rendezvous.protocol.member_plan import Do, Step
from elasticjob_agent.rendezvous.protocol.ranks import assignment
from elasticjob_agent.rendezvous.protocol.transactions import FailureIn, NodeAt
from elasticjob_agent.tracing import Trace
from elasticjob_api import records
from elasticjob_api.records import Node
from elasticjob_api.rendezvous_state import Cause, World
from elasticjob_etcd.interface import Etcd, Txn, TxnResult

_MOST_FAILURES = 24
"""Told with one write: each has 40 KB at worst, and etcd takes 1.5 MB and 128 operations. The others follow as late."""


class Result(Enum):
    """How a step went."""

    DONE = "done"
    WORLD_MOVED = "the world moved"
    KEY_LOST = "the own key is gone"
    RECORD_MOVED = "an own write, given up before, took place after all"


@dataclass(frozen=True, slots=True)
class Scene:
    """The state that a step was planned from."""

    stay: Stay
    world_or_none: World | None
    revision: int

    @property
    def world(self) -> World:
        """The world; steps that need one are never planned without."""
        if self.world_or_none is None:
            raise AssertionError("a step that needs a world was planned without one")
        return self.world_or_none


class Acts:
    """Carries out one step at a time."""

    def __init__(
        self, *, etcd: Etcd, workers: WorkersPort, draw: Callable[[], str], trace: Trace, election: Election
    ) -> None:
        self._etcd = etcd
        self._workers = workers
        self._draw = draw
        self._trace = trace
        self._election = election
        self._acts: dict[Do, Callable[[Scene, Step], Awaitable[Result]]] = {
            Do.START: self._start,
            Do.STOP: self._stop,
            Do.STOP_SOON: self._stop,
            Do.SAY_READY: self._say_ready,
            Do.SAY_DONE: self._say_done,
            Do.SAY_LATE_FAILURES: self._say_late_failures,
            Do.OPEN_FAILED: self._open_failed,
            Do.OPEN_LEAVING: self._open_leaving,
            Do.SAY_LEAVING: self._say_leaving,
        }

    async def perform(self, scene: Scene, step: Step) -> Result:
        """Do it; raises EtcdError, and then the outcome is unknown."""
        return await self._acts[step.do](scene, step)

    async def _commit(self, scene: Scene, txn: Txn) -> Result:
        result = await self._etcd.txn(txn)
        return Result.DONE if result.succeeded else _reason(scene, txn, result)

    async def _commit_node(self, scene: Scene, txn: Txn, node: Node) -> Result:
        """A transaction that writes the own record; what is known of it afterwards is what etcd holds."""
        stay, result = scene.stay, await self._etcd.txn(txn)
        if result.succeeded:
            stay.last = NodeAt(node, result.revision)
            return Result.DONE
        reason = _reason(scene, txn, result)
        if reason is Result.RECORD_MOVED:
            (own,) = result.reads[1]
            stay.last = NodeAt(records.decode(Node, own.value), own.mod_revision)
        return reason

    # -- workers ---------------------------------------------------------------------------------

    async def _start(self, scene: Scene, step: Step) -> Result:
        world, stay = scene.world, scene.stay
        # Noted before the first process exists: (round, nonce) is started once, whatever happens here.
        stay.started, stay.failures_said, stay.opening = (world.round, world.nonce), 0, ("", 0)
        self._trace.point("starting", world.round)
        await self._workers.start(assignment(world, step.group_rank), stay.terms)
        self._trace.point("started", world.round)
        return Result.DONE

    async def _stop(self, scene: Scene, step: Step) -> Result:
        self._trace.point("stopping", scene.world_or_none.round if scene.world_or_none else 0)
        self.stop(scene.stay, soon=step.do is Do.STOP_SOON)
        return Result.DONE

    def stop(self, stay: Stay, *, soon: bool) -> None:
        """Begin to stop the workers, within the short grace or the user's."""
        terms = stay.terms
        grace_s = terms.short_grace_s if soon else terms.stop_grace_s
        self._workers.stop(grace_s=grace_s, signal_name=terms.stop_signal)

    # -- what is said ----------------------------------------------------------------------------

    async def _say_ready(self, scene: Scene, _step: Step) -> Result:
        world, stay = scene.world, scene.stay
        self._trace.point("stopped", world.round)
        # A new port after each round; one never used is kept: a closer that took this node as idle has given it out.
        port = stay.node.master_port if stay.started is None else self._workers.renew_master_port()
        node = replace(stay.node, ready=world.round, master_port=port)
        result = await self._commit_node(scene, transactions.ready(stay.me, stay.last, node), node)
        if result is Result.DONE:
            self._trace.point("ready", world.round)
        return result

    async def _say_done(self, scene: Scene, _step: Step) -> Result:
        world, stay = scene.world, scene.stay
        result = await self._commit(scene, transactions.done(stay.me, scene.revision, world.round))
        if result is Result.DONE:
            stay.done_round = world.round
            self._trace.point("done", world.round)
        return result

    async def _say_late_failures(self, scene: Scene, _step: Step) -> Result:
        stay, failures = scene.stay, list(self._workers.failures)
        until = stay.failures_said + _MOST_FAILURES
        unsaid = [replace(f, failure=replace(f.failure, late=True)) for f in failures[stay.failures_said : until]]
        result = await self._commit(scene, transactions.late_failures(stay.me, _of(stay, unsaid)))
        if result is Result.DONE:
            stay.failures_said += len(unsaid)
        return result

    async def _say_leaving(self, scene: Scene, _step: Step) -> Result:
        stay = scene.stay
        node = replace(stay.node, leaving=True)
        txn = transactions.leaving(stay.me, stay.last, node, is_closer=self._election.is_closer)
        return await self._commit_node(scene, txn, node)

    # -- rounds that this node opens -------------------------------------------------------------

    async def _open_failed(self, scene: Scene, _step: Step) -> Result:
        world, stay, failures = scene.world, scene.stay, self._workers.failures[:_MOST_FAILURES]
        self._trace.note("failed", world.round, failures[0].failure.time_ns)
        self._trace.point("detected", world.round)
        # If the answer is lost, the nonce in the watch shows that it was this node that opened. A second try keeps it:
        # the first may yet turn out to have taken place, and then these failures are not late.
        if not stay.opening[0]:
            stay.opening = self._draw(), len(failures)
        nonce, _ = stay.opening
        opened = forming(world, nonce, Cause.WORKER_FAILED, failures[0].failure.message)
        result = await self._commit(
            scene, transactions.open_round(stay.me, scene.revision, opened, _of(stay, failures))
        )
        if result is Result.DONE:
            stay.failures_said = len(failures)
            self._trace.point("proposed", world.round + 1)
        return result

    async def _open_leaving(self, scene: Scene, _step: Step) -> Result:
        world, stay = scene.world, scene.stay
        node = replace(stay.node, leaving=True)
        opened = forming(world, self._draw(), Cause.NODE_LEFT, f"{node.pod} leaves")
        is_closer = self._election.is_closer
        txn = transactions.open_leaving(stay.me, scene.revision, opened, stay.last, node, is_closer=is_closer)
        return await self._commit_node(scene, txn, node)


def _reason(scene: Scene, txn: Txn, refused: TxnResult) -> Result:
    """Which fence failed; the world first: it is waited for, and the rest found then."""
    me = scene.stay.me
    now = {kv.key: kv for read in refused.reads for kv in read}
    world, own = now.get(me.keys.world), now.get(me.node_key)
    revision = world.mod_revision if world is not None else 0
    if revision != scene.revision and any(compare.key == me.keys.world for compare in txn.compares):
        return Result.WORLD_MOVED
    moved = own is not None and own.lease == me.lease and own.mod_revision != scene.stay.last.revision
    return Result.RECORD_MOVED if moved else Result.KEY_LOST


def _of(stay: Stay, failures: list[FailureIn]) -> list[FailureIn]:
    """The failures as this stay's: a node's own incarnation is not known to its workers."""
    return [replace(f, failure=replace(f.failure, incarnation=stay.me.member.incarnation)) for f in failures]
