"""Executes the actions of a plan and records their outcomes in the job state; it decides nothing.

Actions of one kind run at the same time, kinds one after the other in the plan's order. An error is raised when all
actions of its kind have been tried. Creations of pods are the exception: they run in batches, and the first error ends
them (`slow_start`).
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
from elasticjob_etcd.interface import Etcd, Txn, TxnResult
from elasticjob_operator.cluster.fair_semaphore import FairSemaphore
from elasticjob_operator.controller import transactions
from elasticjob_operator.controller.import_profiles import ImportProfiles
from elasticjob_operator.errors import AlreadyExists, ClusterError, ClusterUnavailable, Conflict, Forbidden
from elasticjob_operator.model import actions as act
from elasticjob_operator.model import job_key, objects
from elasticjob_operator.model.cluster_interface import Cluster, Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import NOTHING, WATCH_DEADLINE_S, JobState
from elasticjob_operator.policy.slots.creation_backoff import after_failure, first_error
from elasticjob_operator.policy.slots.slow_start import batches
from elasticjob_operator.policy.slots.stuck_pods import proof_of_death
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.tls.interface import CertificateIssuer

_MAX_CERTIFICATES = 32
"""Certificates that are issued at the same time, over all jobs; requests to the API server have their own limit."""

_MAX_CREATIONS = 24
"""Pods that are rendered and created at the same time, over all jobs. It bounds the memory of a backlog.

It is less than the limit of `flow_control`, so that creations that hang leave capacity for other requests."""
_MAX_CREATIONS_PER_NAMESPACE = 18
"""The same for one namespace: if its admission webhook hangs, pods of other namespaces are still created."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReconcileContext:
    """One reconcile: the job, its state, and the delays after which the executed actions need another reconcile."""

    key: JobKey
    keys: Keys
    job_state: JobState
    store: int
    requeue_after_s: list[float] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """Events about actions that the status does not show."""


class ActionExecutor:
    """Executes actions with requests to the API server and etcd; `clock` is monotonic."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        etcd: Etcd,
        clock: Callable[[], float],
        import_profiles: ImportProfiles,
        before_etcd_write: Callable[[], None] = lambda: None,
        credentials: CertificateIssuer | None = None,
    ) -> None:
        self._cluster = cluster
        self._credentials = credentials
        self._etcd = etcd
        self._before_etcd_write = before_etcd_write
        self._clock = clock
        self._import_profiles = import_profiles
        self._issuing = asyncio.Semaphore(_MAX_CERTIFICATES)
        self._creating = FairSemaphore(_MAX_CREATIONS, max_per_group=_MAX_CREATIONS_PER_NAMESPACE)
        self._handlers: dict[type[act.Action], Callable[[ReconcileContext, Any], Awaitable[None]]] = {
            act.Apply: self._apply,
            act.Remove: self._remove,
            act.CreatePod: self._create_pod,
            act.GetPod: self._get_pod,
            act.DeletePods: self._delete_pods,
            act.ForceDelete: self._force_delete,
            act.Evict: self._evict,
            act.WriteSpec: self._write_spec,
            act.WriteExpected: self._write_expected,
            act.IssueCertificate: self._issue_certificate,
            act.RemoveEtcdUser: self._remove_etcd_user,
            act.KeepImportProfile: self._keep_import_profile,
            act.DeletePrefix: self._delete_prefix,
            act.DeleteJob: self._delete_job,
        }

    async def execute(self, context: ReconcileContext, actions: Iterable[act.Action]) -> None:
        """Execute the actions, kind by kind; raises the first error of the first kind that failed."""
        for kind, group in itertools.groupby(actions, type):
            if kind is act.CreatePod:
                await self._create_all(context, tuple(group))
            else:
                _raise_first(await self._execute_all(context, group))

    async def _execute_all(self, context: ReconcileContext, actions: Iterable[act.Action]) -> list[BaseException]:
        """Execute the actions at the same time; return their errors."""
        results = await asyncio.gather(
            *(self._execute_one(context, action) for action in actions), return_exceptions=True
        )
        return [result for result in results if isinstance(result, BaseException)]

    async def _create_all(self, context: ReconcileContext, creations: Sequence[act.Action]) -> None:
        """Create pods in batches of doubling size; raises the first error of the first batch that failed."""
        for batch in batches(creations):
            errors = await self._execute_all(context, batch)
            error, before = first_error(errors), context.job_state.failed_creation
            # If a part of the batch was created, the back-off begins again with its shortest pause.
            known = before if len(errors) == len(batch) else None
            strict = any(isinstance(creation, act.CreatePod) and creation.strict for creation in batch)
            record = None if error is None else after_failure(known, error, self._clock(), strict=strict)
            context.job_state.failed_creation = record
            _raise_first(errors)

    async def _execute_one(self, context: ReconcileContext, action: act.Action) -> None:
        log.debug("%s: %s", context.key, action)
        await self._handlers[type(action)](context, action)

    # Objects of the API server.

    async def _apply(self, context: ReconcileContext, action: act.Apply) -> None:
        try:
            await self._cluster.apply(action.resource, dict(action.body))
        except Forbidden as error:
            if action.resource is Resource.SERVICE:
                raise
            # The operator's role is older than the operator. The job runs without this object: log it, do not retry.
            log.warning("%s: %s", context.key, error)
        context.job_state.applied[action.resource] = action.body

    async def _remove(self, context: ReconcileContext, action: act.Remove) -> None:
        """Delete by the label with the job's uid; objects of another job of this name do not have it."""
        selector = {constants.LABEL_JOB_UID: context.key.uid}
        try:
            await self._cluster.delete_collection(action.resource, context.key.namespace, selector)
        except Forbidden as error:
            # The operator's role is older than the operator: no such object was created, or a user deletes it.
            log.warning("%s: %s", context.key, error)
        context.job_state.applied[action.resource] = NOTHING

    async def _create_pod(self, context: ReconcileContext, action: act.CreatePod) -> None:
        job_state, name = context.job_state, action.name
        try:
            async with self._creating.slot(context.key.namespace):
                body = render_pod(action.source, slot=action.slot, name=name)
                # Before the request: even if this task is cancelled, the name is not used again.
                job_state.creation_started(name, action.slot, self._clock())
                create = self._cluster.create_strictly if action.strict else self._cluster.create
                await create(Resource.POD, body)
        except AlreadyExists:
            log.info("%s: pod %s exists already", context.key, name)
        except ClusterUnavailable:
            raise  # the outcome is unknown: a later plan reads the pod
        except ClusterError:
            job_state.creation_failed(name)
            raise
        job_state.observed(name, self._clock())
        context.requeue_after_s.append(WATCH_DEADLINE_S)

    async def _get_pod(self, context: ReconcileContext, action: act.GetPod) -> None:
        found = await self._cluster.get(Resource.POD, context.key.namespace, action.name)
        if found is None or job_key.key_of_pod(found) != context.key:
            if action.uids:  # an agent of this pod wrote to etcd, so the pod was created
                context.job_state.unanswered_creations.discard(action.name)
            context.job_state.observed_absent(action.name)
            context.job_state.deleted_uids |= action.uids
        else:
            context.job_state.observed(action.name, self._clock())
            context.job_state.deleted_uids |= action.uids - {objects.uid_of(found)}
        context.requeue_after_s.append(0.0)

    async def _delete_pods(self, context: ReconcileContext, action: act.DeletePods) -> None:
        if action.spec_revision is not None and await self._spec_revision(context) != action.spec_revision:
            return  # the slot map is newer than the plan; its arrival queues the job
        to_delete = ((name, uid, action.versions.get(name)) for name, uid in action.pods.items())
        await asyncio.gather(
            *(self._delete_pod(context, name, uid, version=version) for name, uid, version in to_delete)
        )

    async def _delete_pod(
        self,
        context: ReconcileContext,
        name: str,
        uid: str,
        *,
        version: str | None = None,
        grace_s: float | None = None,
    ) -> None:
        path = (Resource.POD, context.key.namespace, name)
        try:
            await self._cluster.delete(*path, uid=uid, version=version, grace_s=grace_s)
        except Conflict:
            log.info("%s: pod %s was not deleted: it has changed or was replaced", context.key, name)
            context.requeue_after_s.append(1.0)

    async def _force_delete(self, context: ReconcileContext, action: act.ForceDelete) -> None:
        context.job_state.node_checked_s[action.uid] = self._clock()
        try:
            node = await self._cluster.get(Resource.NODE, "", action.node_name)
            proof = proof_of_death(node, only_proof=action.only_proof)
        except Forbidden as error:
            log.info("%s: pod %s is stuck; the operator may not read its node: %s", context.key, action.name, error)
            return
        if not proof:
            return  # the node may be alive; a later plan checks again
        await self._delete_pod(context, action.name, action.uid, grace_s=0.0)
        message = f"pod {action.name} was deleted by force: its node {action.node_name} {proof}"
        context.events.append(Event(EventReason.POD_FORCE_DELETED, message, warning=True))

    async def _delete_job(self, context: ReconcileContext, action: act.DeleteJob) -> None:
        log.info("%s: ttlSecondsAfterFinished is over, deleting the job", context.key)
        await self._cluster.delete(Resource.JOB, context.key.namespace, context.key.name, uid=action.uid)

    # The rendezvous.

    async def _spec_revision(self, context: ReconcileContext) -> int:
        kv = await self._etcd.get(context.keys.spec)
        return kv.mod_revision if kv else 0

    async def _write_spec(self, context: ReconcileContext, action: act.WriteSpec) -> None:
        if action.spec_revision == 0 and not await self.job_exists(context.key):
            return  # a deleted job must not get a first spec: no one would delete it
        for name in action.expected_pods:
            context.job_state.expect(name)  # before the transaction: it may succeed although its response is lost
        profile = None
        if action.import_profile:
            profile = await self._import_profiles.find(context.key, action.import_profile, context.job_state)
        if await self._write(context, transactions.write_spec(context.keys, action, profile)):
            context.events.extend(action.events)

    async def _write(self, context: ReconcileContext, txn: Txn) -> bool:
        result = await self._txn(txn)
        if result.succeeded:
            context.job_state.written = (context.store, result.revision)
        return result.succeeded

    async def _txn(self, txn: Txn) -> TxnResult:
        self._before_etcd_write()
        return await self._etcd.txn(txn)

    async def job_exists(self, key: JobKey) -> bool:
        """Return whether the API server has a job with this uid whose deletion was not requested."""
        found = await self._cluster.get(Resource.JOB, key.namespace, key.name)
        return found is not None and objects.uid_of(found) == key.uid and not objects.is_terminating(found)

    async def _write_expected(self, context: ReconcileContext, action: act.WriteExpected) -> None:
        await self._write(context, transactions.write_expected(context.keys, action))

    async def _evict(self, context: ReconcileContext, action: act.Evict) -> None:
        slot, incarnation = action.member.slot, action.member.incarnation
        log.info("%s: evicting incarnation %s of slot %d: %s", context.key, incarnation, slot, action.tombstone.detail)
        await self._txn(transactions.write_tombstone(context.keys, action))
        await self._etcd.lease_revoke(action.lease)

    async def _issue_certificate(self, context: ReconcileContext, action: act.IssueCertificate) -> None:
        assert self._credentials is not None
        async with self._issuing:
            context.job_state.has_user = True  # before the request: its response may be lost
            context.job_state.certified = await self._credentials.issue(context.key, action.secret, store=context.store)

    async def _remove_etcd_user(self, context: ReconcileContext, _action: act.RemoveEtcdUser) -> None:
        assert self._credentials is not None
        context.job_state.certified = None
        await self._credentials.forget(context.key)
        context.job_state.has_user = False

    async def _keep_import_profile(self, context: ReconcileContext, action: act.KeepImportProfile) -> None:
        await self._import_profiles.keep(context.key, action.name, context.job_state)
        context.job_state.profile_kept = action.moment

    async def _delete_prefix(self, context: ReconcileContext, _action: act.DeletePrefix) -> None:
        await self._txn(transactions.delete_prefix(context.keys))


def _raise_first(errors: Iterable[BaseException]) -> None:
    for error in errors:
        raise error
