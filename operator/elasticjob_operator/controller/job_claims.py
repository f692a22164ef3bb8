"""The claim of a job: this installation writes its id into the status before the first pod (`policy.lifecycle`)."""

import logging

from elasticjob_operator.errors import Conflict, Forbidden
from elasticjob_operator.informers.caches import PodCache
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Cluster, Object, Resource
from elasticjob_operator.model.job_end import has_ended
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.lifecycle.installation import FIELD, Ownership, UnmanagedReason, is_managed, ownership
from elasticjob_operator.policy.status.build import is_finished
from elasticjob_operator.settings import Settings

log = logging.getLogger(__name__)


class JobClaims:
    """Claims jobs for one installation of the operator."""

    def __init__(self, cluster: Cluster, pods: PodCache, settings: Settings) -> None:
        self._cluster = cluster
        self._pods = pods
        self._settings = settings

    def unmanaged_reason(self, key: JobKey, obj: Object, *, claimed: bool) -> UnmanagedReason | None:
        """Return why another controller or installation acts on the job; None if this one does or may do so."""
        if not is_managed(obj, self._settings.manager_name):
            return UnmanagedReason.MANAGED_BY_ANOTHER
        is_foreign = self._ownership(key, obj, claimed=claimed) is Ownership.FOREIGN
        return UnmanagedReason.OWNED_BY_ANOTHER if is_foreign else None

    def _ownership(self, key: JobKey, obj: Object, *, claimed: bool) -> Ownership:
        pods, prefix = self._pods.of(key).values(), key.keys(self._settings.cluster_id).prefix
        return ownership(obj, pods, installation=self._settings.installation, prefix=prefix, claimed=claimed)

    async def claim(self, key: JobKey, obj: Object, job_state: JobState) -> Object | None:
        """Claim the job unless that was done, and return it with every field that is needed.

        None if it has changed, does not exist any more, or was found to be in deletion: the watch then queues it.
        """
        if objects.is_too_large(obj):  # not claimed: each write of such a job costs the API server seconds
            return obj
        claimed = await self._write_claim(key, obj, job_state)
        status = job_state.status
        if claimed is None or status is None or is_finished(status) or not has_ended(claimed):
            return claimed
        # The cache drops most fields of a job whose status shows its end. This operator has not written that end, so
        # the job may have to continue: read it whole.
        found = await self._cluster.get(Resource.JOB, key.namespace, key.name)
        is_usable = found is not None and objects.uid_of(found) == key.uid and not objects.is_terminating(found)
        return found if is_usable else None

    async def _write_claim(self, key: JobKey, obj: Object, job_state: JobState) -> Object | None:
        """Return the job once its status names this installation; None if it has changed meanwhile."""
        ours, version = self._settings.installation, objects.version_of(obj)
        if job_state.installation == ours:
            return obj
        if self._ownership(key, obj, claimed=bool(job_state.installation)) is Ownership.UNCLAIMED:
            try:
                version = await self._cluster.claim(Resource.JOB, key.namespace, key.name, {FIELD: ours}, version)
            except Conflict:
                return None
            except Forbidden as error:
                log.warning("%s: cannot write status.installation %s: %s", key, ours, error)
        job_state.foreign_event, job_state.installation = None, ours
        return objects.with_version(obj, version)
