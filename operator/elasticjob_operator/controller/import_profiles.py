"""The import profiles that the operator keeps for later jobs: copied from a job's keys, and into the keys of the next.

They only make the first start of a job faster. So an error is logged, and the job goes on without one.

A profile is kept for a day. The script of a command may change meanwhile, and then one job a day records it anew. A
profile that a job got from an earlier one is not kept again.

Its key has the uid of the namespace. So a tenant with a new namespace of a former name inherits nothing. No object of a
job has this uid, so it is read once for each job whose workers may start warm.

A job decides by its own records when the operator looks at its profile, and tenants create as many jobs as they like.
So a namespace has a limit for the profiles that are looked at, and for those that its jobs get.
"""

import logging
from collections.abc import Callable

from elasticjob_api.constants import IMPORT_PROFILE_BYTES
from elasticjob_api.import_profile import decode_profile
from elasticjob_api.keys import kept_profile, kept_profiles
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd, Put, Txn
from elasticjob_operator.controller.namespace_rate_limiter import NamespaceRateLimiter
from elasticjob_operator.errors import ClusterError, Forbidden
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Cluster, Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.etcd.kept_profiles import KeptProfile, profiles_to_drop

KEPT_S = 24 * 3600.0
PERIOD_S = 600.0
MOST_WRITES, MOST_COPIES = 16, 128
"""Of one namespace in this period: new profiles that are looked at and written, and jobs that get one.

They are 2 MiB and 16 MiB at most."""

log = logging.getLogger(__name__)


class ImportProfiles:
    """The kept profiles in etcd; `clock` is monotonic, in seconds."""

    def __init__(self, *, etcd: Etcd, cluster: Cluster, cluster_id: str, clock: Callable[[], float]) -> None:
        self._etcd = etcd
        self._cluster = cluster
        self._cluster_id = cluster_id
        self._writes = NamespaceRateLimiter(most=MOST_WRITES, period_s=PERIOD_S, clock=clock)
        self._copies = NamespaceRateLimiter(most=MOST_COPIES, period_s=PERIOD_S, clock=clock)
        self._is_refusal_logged = False

    async def keep(self, job: JobKey, name: str, job_state: JobState) -> None:
        """Copy the job's profile, if it has a new one that can be read; drop others if there are too many."""
        try:
            await self._keep(job, name, job_state)
        except (EtcdError, ClusterError) as error:
            log.warning("%s: its import profile was not kept for later jobs: %s", job, error)

    async def find(self, job: JobKey, name: str, job_state: JobState) -> bytes | None:
        """Return the profile of this name that an earlier job of the namespace had; None if there is none."""
        if self._copies.is_exhausted(job.namespace):
            return None
        try:
            key = await self._key(job, name, job_state)
            kept = await self._etcd.get(key) if key else None
        except (EtcdError, ClusterError) as error:
            log.warning("%s: no import profile of an earlier job was read: %s", job, error)
            return None
        if kept is None or len(kept.value) > IMPORT_PROFILE_BYTES:
            return None
        self._copies.record(job.namespace)
        return kept.value

    async def _keep(self, job: JobKey, name: str, job_state: JobState) -> None:
        if self._writes.is_exhausted(job.namespace):
            return
        found = await self._etcd.get(job.keys(self._cluster_id).import_profile)
        if found is None or found.mod_revision == job_state.refused_profile:
            return
        key = await self._key(job, name, job_state)
        before = await self._etcd.get(key) if key else None
        if not key or (before is not None and before.value == found.value):
            return
        self._writes.record(job.namespace)  # before it is parsed: that takes time, too
        if decode_profile(found.value) is None:
            job_state.refused_profile = found.mod_revision
            log.warning("%s: its import profile was not kept for later jobs: it is malformed or too large", job)
            return
        await self._write(key, found.value)
        if before is None:
            await self._drop_oldest()
        else:
            await self._etcd.lease_revoke(before.lease)  # the key has the new one

    async def _write(self, key: str, profile: bytes) -> None:
        lease = await self._etcd.lease_grant(KEPT_S)
        try:
            await self._etcd.txn(Txn((), (Put(key, profile, lease.id),)))
        except EtcdError:
            await self._etcd.lease_revoke(lease.id)
            raise

    async def _drop_oldest(self) -> None:
        prefix = kept_profiles(self._cluster_id)
        kvs = {kv.key: kv for kv in (await self._etcd.range(prefix)).kvs}
        all_kept = [
            KeptProfile(key, key.removeprefix(prefix).partition("/")[0], kv.mod_revision) for key, kv in kvs.items()
        ]
        for key in profiles_to_drop(all_kept):
            await self._etcd.lease_revoke(kvs[key].lease)

    async def _key(self, job: JobKey, name: str, job_state: JobState) -> str:
        """Return the key of the profile; empty if the job or its namespace is gone, or may not be read."""
        if not job_state.namespace_uid:
            job_state.namespace_uid = await self._read_namespace_uid(job)
        uid = job_state.namespace_uid
        return kept_profile(self._cluster_id, job.namespace, uid, name) if uid else ""

    async def _read_namespace_uid(self, job: JobKey) -> str:
        try:
            namespace = await self._cluster.get(Resource.NAMESPACE, "", job.namespace)
        except Forbidden as error:
            # The operator's role is older than the operator.
            if not self._is_refusal_logged:
                log.warning("no import profiles are kept for later jobs: %s", error)
                self._is_refusal_logged = True
            return ""
        found = await self._cluster.get(Resource.JOB, job.namespace, job.name)
        # The job was there before and after the read of its namespace: so that was no other one of this name.
        if namespace is None or found is None or objects.uid_of(found) != job.uid:
            return ""
        return objects.uid_of(namespace)
