"""Carries out a plan's actions, and writes down in the ledger what was learned; it decides nothing.

Actions of one kind run at once, kinds one after the other in the plan's order. An error is raised when all of its
kind have been tried. Creations are the exception: they run in batches, and an error ends them (`slow_start`).
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api import constants
from elasticjob_api.constants import EventReason
from elasticjob_api.keys import Keys
from elasticjob_etcd.interface import Etcd, Txn
from elasticjob_operator.cluster.fair_semaphore import FairSemaphore
from elasticjob_operator.controller import transactions
from elasticjob_operator.errors import AlreadyExists, ClusterError, ClusterUnavailable, Conflict, Forbidden
from elasticjob_operator.model import actions as act
from elasticjob_operator.model import job_key, objects
from elasticjob_operator.model.cluster_interface import Cluster, Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import NOTHING, SHOWN_WITHIN_S, Ledger
from elasticjob_operator.policy.slots.creation_backoff import failed, first_error
from elasticjob_operator.policy.slots.slow_start import batches
from elasticjob_operator.policy.slots.stuck_pods import why_dead
from elasticjob_operator.tls.interface import Credentials

_AT_ONCE = 32
"""Certificates that are made at the same time, over all jobs; a cluster minds its own requests."""

_CREATED_AT_ONCE = 24
"""Pods that are rendered and created at the same time, over all jobs. It bounds the memory of a backlog.

It is less than `Room` has: creations that hang leave room for other requests."""
_CREATED_OF_ONE_NAMESPACE = 18
"""An admission webhook of one namespace may hang: it does not hold the places of the others."""

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
    """Actions that no status shows."""


class Actor:
    """The hands of the reconciler; `clock` is monotonic."""

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
        self._creating = FairSemaphore(_CREATED_AT_ONCE, most_each=_CREATED_OF_ONE_NAMESPACE)
        self._handlers: dict[type[act.Action], Callable[[Turn, Any], Awaitable[None]]] = {
            act.Apply: self._apply,
            act.Remove: self._remove,
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
        for kind, group in itertools.groupby(actions, type):
            if kind is act.CreatePod:
                await self._create_all(turn, tuple(group))
            else:
                _raise_first(await self._all(turn, group))

    async def _all(self, turn: Turn, actions: Iterable[act.Action]) -> list[BaseException]:
        """Do them at once; return their errors."""
        results = await asyncio.gather(*(self._one(turn, action) for action in actions), return_exceptions=True)
        return [result for result in results if isinstance(result, BaseException)]

    async def _create_all(self, turn: Turn, creations: Sequence[act.Action]) -> None:
        """Create pods in batches that double; the first error ends it."""
        for batch in batches(creations):
            errors = await self._all(turn, batch)
            error, before = first_error(errors), turn.ledger.failed_creation
            # A batch of which some were created is progress: the pause begins small again.
            known = before if len(errors) == len(batch) else None
            strict = any(isinstance(creation, act.CreatePod) and creation.strict for creation in batch)
            record = None if error is None else failed(known, error, self._clock(), strict=strict)
            turn.ledger.failed_creation = record
            _raise_first(errors)

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
            # A role of before the upgrade: the job runs as well without one, so it is logged and not tried again.
            log.warning("%s: %s", turn.key, error)
        turn.ledger.applied[action.resource] = action.body

    async def _remove(self, turn: Turn, action: act.Remove) -> None:
        """By the label that only what was made for this very job has: another one of the job's name stays."""
        selector = {constants.LABEL_JOB_UID: turn.key.uid}
        try:
            await self._cluster.delete_collection(action.resource, turn.key.namespace, selector)
        except Forbidden as error:
            # A role of before the upgrade: there is none yet, or somebody deletes it by hand.
            log.warning("%s: %s", turn.key, error)
        turn.ledger.applied[action.resource] = NOTHING

    async def _create_pod(self, turn: Turn, action: act.CreatePod) -> None:
        ledger, name = turn.ledger, action.name
        try:
            async with self._creating.of(turn.key.namespace):
                body = action.source.pod(action.slot, name)
                # Before the request: whatever ends this task, the name is not tried again.
                ledger.sending(name, action.slot, self._clock())
                create = self._cluster.create_strictly if action.strict else self._cluster.create
                await create(Resource.POD, body)
        except AlreadyExists:
            log.info("%s: pod %s is there already", turn.key, name)
        except ClusterUnavailable:
            raise  # its creation is unknown: it will be looked for
        except ClusterError:
            ledger.refused(name)
            raise
        ledger.exists(name, self._clock())
        turn.again_in_s.append(SHOWN_WITHIN_S)

    async def _look_pod(self, turn: Turn, action: act.LookPod) -> None:
        found = await self._cluster.get(Resource.POD, turn.key.namespace, action.name)
        if found is None or job_key.of_pod(found) != turn.key:
            if action.uids:  # an agent wrote from it
                turn.ledger.unanswered.discard(action.name)
            turn.ledger.missing(action.name)
            turn.ledger.gone_uids |= action.uids
        else:
            turn.ledger.exists(action.name, self._clock())
            turn.ledger.gone_uids |= action.uids - {objects.uid_of(found)}
        turn.again_in_s.append(0.0)

    async def _delete_pods(self, turn: Turn, action: act.DeletePods) -> None:
        if action.spec_revision is not None and await self._spec_revision(turn) != action.spec_revision:
            return  # the map has changed since these pods were sighted; the watch will show it
        doomed = ((name, uid, action.versions.get(name)) for name, uid in action.pods.items())
        await asyncio.gather(*(self._delete_pod(turn, name, uid, version=version) for name, uid, version in doomed))

    async def _delete_pod(
        self, turn: Turn, name: str, uid: str, *, version: str | None = None, grace_s: float | None = None
    ) -> None:
        place = (Resource.POD, turn.key.namespace, name)
        try:
            await self._cluster.delete(*place, uid=uid, version=version, grace_s=grace_s)
        except Conflict:
            log.info("%s: pod %s has changed, or is another one by now", turn.key, name)
            turn.again_in_s.append(1.0)

    async def _force_delete(self, turn: Turn, action: act.ForceDelete) -> None:
        turn.ledger.node_looked_s[action.uid] = self._clock()
        try:
            node = await self._cluster.get(Resource.NODE, "", action.node_name)
            why = why_dead(node, only_proof=action.only_proof)
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
            return  # a job that was deleted must not get a first spec: it would never be deleted
        for name in action.proposed:
            turn.ledger.propose(name)  # before the transaction: it may land although its answer is lost
        if await self._write(turn, transactions.write_spec(turn.keys, action)):
            turn.news.extend(action.news)

    async def _write(self, turn: Turn, txn: Txn) -> bool:
        result = await self._etcd.txn(txn)
        if result.succeeded:
            turn.ledger.written = (turn.store, result.revision)
        return result.succeeded

    async def job_is_there(self, key: JobKey) -> bool:
        """Return True if the API server, not a cache, has this very job and its deletion was not requested."""
        found = await self._cluster.get(Resource.JOB, key.namespace, key.name)
        return found is not None and objects.uid_of(found) == key.uid and not objects.is_terminating(found)

    async def _write_expected(self, turn: Turn, action: act.WriteExpected) -> None:
        await self._write(turn, transactions.write_expected(turn.keys, action))

    async def _evict(self, turn: Turn, action: act.Evict) -> None:
        eviction = action.eviction
        log.info("%s: evicting slot %d: %s", turn.key, eviction.member.slot, eviction.gone.detail)
        await self._etcd.txn(transactions.prove_gone(turn.keys, eviction))
        await self._etcd.lease_revoke(eviction.lease)

    async def _certify(self, turn: Turn, action: act.Certify) -> None:
        assert self._credentials is not None
        async with self._room:
            turn.ledger.has_user = True  # before the request: its answer may be lost
            turn.ledger.certified = await self._credentials.certify(turn.key, action.secret, store=turn.store)

    async def _disown(self, turn: Turn, _action: act.Disown) -> None:
        assert self._credentials is not None
        turn.ledger.certified = None
        await self._credentials.forget(turn.key)
        turn.ledger.has_user = False

    async def _delete_prefix(self, turn: Turn, _action: act.DeletePrefix) -> None:
        await self._etcd.txn(transactions.delete_prefix(turn.keys))


def _raise_first(errors: Iterable[BaseException]) -> None:
    for error in errors:
        raise error
