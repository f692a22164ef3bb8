"""Carries out a plan's actions, and writes down in the ledger what was learned; it decides nothing.

Actions of one kind run at once, kinds one after the other in the plan's order. An error is raised when all of its
kind have been tried: one refused pod does not keep the others from being created.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api.keys import Keys
from elasticjob_api.names import EventReason
from elasticjob_etcd.protocol import Etcd, Txn
from elasticjob_operator import actions as act
from elasticjob_operator import jobkey, txns
from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.protocol import Cluster, Resource
from elasticjob_operator.credentials.protocol import Credentials
from elasticjob_operator.errors import AlreadyExists, ClusterError, ClusterUnavailable, Conflict, Forbidden
from elasticjob_operator.event import Event
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.ledger import SHOWN_WITHIN_S, Ledger
from elasticjob_operator.policy.stuck import why_dead

_AT_ONCE = 32
"""Certificates that are made at the same time, over all jobs; a cluster minds its own requests."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Turn:
    """One job's turn: whose, what is known, and when what was learned makes another look worth while."""

    key: JobKey
    keys: Keys
    ledger: Ledger
    store: int
    again_in_s: list[float] = field(default_factory=list)
    news: list[Event] = field(default_factory=list)
    """What was done that no status tells."""


class Actor:
    """The hands of the reconciler."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        etcd: Etcd,
        clock: Callable[[], float],
        credentials: Credentials | None = None,
    ) -> None:
        self._cluster = cluster
        self._credentials = credentials
        self._etcd = etcd
        self._clock = clock
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._handlers: dict[type[act.Action], Callable[[Turn, Any], Awaitable[None]]] = {
            act.Apply: self._apply,
            act.CreatePod: self._create_pod,
            act.LookPod: self._look_pod,
            act.DeletePods: self._delete_pods,
            act.ForceDelete: self._force_delete,
            act.Evict: self._evict,
            act.WriteSpec: self._write_spec,
            act.WriteExpected: self._write_expected,
            act.Certify: self._certify,
            act.Disown: self._disown,
            act.DeletePrefix: self._delete_prefix,
            act.DeleteJob: self._delete_job,
        }

    async def perform(self, turn: Turn, actions: Iterable[act.Action]) -> None:
        """Do them all, kind by kind; raises the first error of the first kind that had one."""
        for _, group in itertools.groupby(actions, type):
            results = await asyncio.gather(*(self._one(turn, a) for a in group), return_exceptions=True)
            for error in (result for result in results if isinstance(result, BaseException)):
                raise error

    async def _one(self, turn: Turn, action: act.Action) -> None:
        log.debug("%s: %s", turn.key, action)
        await self._handlers[type(action)](turn, action)

    # Pods and their like.

    async def _apply(self, turn: Turn, action: act.Apply) -> None:
        try:
            await self._cluster.apply(action.resource, dict(action.body))
        except Forbidden as error:
            if action.resource is Resource.SERVICE:
                raise
            # A role of before the upgrade: the job runs as well without one, so it is said and not tried again.
            log.warning("%s: %s", turn.key, error)
        turn.ledger.applied[action.resource] = action.body

    async def _create_pod(self, turn: Turn, action: act.CreatePod) -> None:
        ledger, name = turn.ledger, action.name
        ledger.sending(name)  # before the request: whatever ends this task, the name is not tried again
        try:
            await self._cluster.create(Resource.POD, dict(action.body))
        except AlreadyExists:
            log.info("%s: pod %s is there already", turn.key, name)
        except ClusterUnavailable:
            raise  # nobody knows whether it was created: it will be looked for
        except ClusterError:
            ledger.refused(name)
            raise
        ledger.exists(name, self._clock())
        turn.again_in_s.append(SHOWN_WITHIN_S)

    async def _look_pod(self, turn: Turn, action: act.LookPod) -> None:
        found = await self._cluster.get(Resource.POD, turn.key.namespace, action.name)
        if found is None or jobkey.of_pod(found) != turn.key:
            turn.ledger.missing(action.name)
            turn.ledger.gone_uids |= action.uids
        else:
            turn.ledger.exists(action.name, self._clock())
            turn.ledger.gone_uids |= action.uids - {objects.uid_of(found)}
        turn.again_in_s.append(0.0)

    async def _delete_pods(self, turn: Turn, action: act.DeletePods) -> None:
        if action.spec_revision is not None and await self._spec_revision(turn) != action.spec_revision:
            return  # the map has changed since these pods were sighted; the watch will show it
        await asyncio.gather(*(self._delete_pod(turn, name, uid) for name, uid in action.pods.items()))

    async def _delete_pod(self, turn: Turn, name: str, uid: str, grace_s: float | None = None) -> None:
        try:
            await self._cluster.delete(Resource.POD, turn.key.namespace, name, uid=uid, grace_s=grace_s)
        except Conflict:
            log.info("%s: pod %s is another one by now", turn.key, name)

    async def _force_delete(self, turn: Turn, action: act.ForceDelete) -> None:
        turn.ledger.node_looked_s[action.uid] = self._clock()
        try:
            why = why_dead(await self._cluster.get(Resource.NODE, "", action.node_name))
        except Forbidden as error:
            log.info("%s: pod %s is stuck; its node may not be looked at: %s", turn.key, action.name, error)
            return
        if not why:
            return  # it is only slow; asked again later
        await self._delete_pod(turn, action.name, action.uid, grace_s=0.0)
        message = f"pod {action.name} was deleted by force: its node {action.node_name} {why}"
        turn.news.append(Event(EventReason.POD_FORCE_DELETED, message, warning=True))

    async def _delete_job(self, turn: Turn, action: act.DeleteJob) -> None:
        log.info("%s: ttlSecondsAfterFinished is over, deleting the job", turn.key)
        await self._cluster.delete(Resource.JOB, turn.key.namespace, turn.key.name, uid=action.uid)

    # The rendezvous.

    async def _spec_revision(self, turn: Turn) -> int:
        kv = await self._etcd.get(turn.keys.spec)
        return kv.mod_revision if kv else 0

    async def _write_spec(self, turn: Turn, action: act.WriteSpec) -> None:
        if action.spec_revision == 0 and not await self.job_is_there(turn.key):
            return  # a job that was deleted must not get a first spec: nobody would delete it again
        for name in action.proposed:
            turn.ledger.propose(name)  # before the transaction: it may land although its answer is lost
        if await self._write(turn, txns.write_spec(turn.keys, action)):
            turn.news.extend(action.news)

    async def _write(self, turn: Turn, txn: Txn) -> bool:
        result = await self._etcd.txn(txn)
        if result.succeeded:
            turn.ledger.written = (turn.store, result.revision)
        return result.succeeded

    async def job_is_there(self, key: JobKey) -> bool:
        """The API server, not a cache, has this very job, and nobody has asked for its deletion."""
        found = await self._cluster.get(Resource.JOB, key.namespace, key.name)
        return found is not None and objects.uid_of(found) == key.uid and not objects.is_terminating(found)

    async def _write_expected(self, turn: Turn, action: act.WriteExpected) -> None:
        await self._write(turn, txns.write_expected(turn.keys, action))

    async def _evict(self, turn: Turn, action: act.Evict) -> None:
        eviction = action.eviction
        log.info("%s: evicting slot %d: %s", turn.key, eviction.member.slot, eviction.gone.detail)
        await self._etcd.txn(txns.prove_gone(turn.keys, eviction))
        await self._etcd.lease_revoke(eviction.lease)

    async def _certify(self, turn: Turn, action: act.Certify) -> None:
        assert self._credentials is not None
        async with self._room:
            turn.ledger.certified = await self._credentials.certify(turn.key, action.secret, store=turn.store)

    async def _disown(self, turn: Turn, _action: act.Disown) -> None:
        assert self._credentials is not None
        await self._credentials.forget(turn.key)

    async def _delete_prefix(self, turn: Turn, _action: act.DeletePrefix) -> None:
        await self._etcd.txn(txns.delete_prefix(turn.keys))
