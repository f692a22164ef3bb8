"""The import profiles that the operator keeps for later jobs: copied from a job's keys, and into the keys of the next.

They only make the first start of a job faster. So an error is logged, and the job goes on without one.

A profile is kept for a day. The script of a command may change meanwhile, and then one job a day records it anew. A
profile that a job got from an earlier one is not kept again.

A job decides by its own records when the operator looks at its profile. Two jobs of one command may replace the
profile of each other. So a namespace has a limit for the number of writes.
"""

import logging
from collections import deque
from collections.abc import Callable

from elasticjob_api.constants import IMPORT_PROFILE_BYTES
from elasticjob_api.keys import kept_profile, kept_profiles
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd, Put, Txn
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.kept_profiles import KeptProfile, profiles_to_drop

KEPT_S = 24 * 3600.0
MOST_WRITES, WRITES_PERIOD_S = 16, 600.0
"""Profiles that are written for one namespace in this period: 2 MiB."""

log = logging.getLogger(__name__)


class ImportProfiles:
    """The kept profiles in etcd; `clock` is monotonic, in seconds."""

    def __init__(self, etcd: Etcd, cluster_id: str, clock: Callable[[], float]) -> None:
        self._etcd = etcd
        self._cluster_id = cluster_id
        self._clock = clock
        self._written_s: dict[str, deque[float]] = {}
        """Namespace → when its profiles were written in the last period."""

    async def keep(self, job: JobKey, name: str) -> None:
        """Copy the job's profile, if it has one; drop others if there are too many."""
        try:
            await self._keep(job, name)
        except EtcdError as error:
            log.warning("%s: its import profile was not kept for later jobs: %s", job, error)

    async def find(self, job: JobKey, name: str) -> bytes | None:
        """Return the profile of this name that an earlier job of the namespace had; None if there is none."""
        try:
            kept = await self._etcd.get(self._key(job, name))
        except EtcdError as error:
            log.warning("%s: no import profile of an earlier job was read: %s", job, error)
            return None
        return kept.value if kept is not None and len(kept.value) <= IMPORT_PROFILE_BYTES else None

    async def _keep(self, job: JobKey, name: str) -> None:
        if self._writes(job.namespace) >= MOST_WRITES:
            return
        found = await self._etcd.get(job.keys(self._cluster_id).import_profile)
        if found is None or not 0 < len(found.value) <= IMPORT_PROFILE_BYTES:
            return
        before = await self._etcd.get(self._key(job, name))
        if before is not None and before.value == found.value:
            return
        self._written_s.setdefault(job.namespace, deque()).append(self._clock())
        lease = await self._etcd.lease_grant(KEPT_S)
        try:
            await self._etcd.txn(Txn((), (Put(self._key(job, name), found.value, lease.id),)))
        except EtcdError:
            await self._etcd.lease_revoke(lease.id)
            raise
        if before is None:
            await self._drop_oldest()
        else:
            await self._etcd.lease_revoke(before.lease)  # the key has the new one

    def _writes(self, namespace: str) -> int:
        """Return the number of writes for this namespace in the last period."""
        written_s = self._written_s.get(namespace, deque())
        while written_s and written_s[0] <= self._clock() - WRITES_PERIOD_S:
            written_s.popleft()
        if not written_s:
            self._written_s.pop(namespace, None)
        return len(written_s)

    async def _drop_oldest(self) -> None:
        prefix = kept_profiles(self._cluster_id)
        kvs = {kv.key: kv for kv in (await self._etcd.range(prefix)).kvs}
        all_kept = [
            KeptProfile(key, key.removeprefix(prefix).partition("/")[0], kv.mod_revision) for key, kv in kvs.items()
        ]
        for key in profiles_to_drop(all_kept):
            await self._etcd.lease_revoke(kvs[key].lease)

    def _key(self, job: JobKey, name: str) -> str:
        return kept_profile(self._cluster_id, job.namespace, name)
