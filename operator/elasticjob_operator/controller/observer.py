"""The interface of an observer of the reconciler; this one ignores all. `ui.Board` is that of the web page.

No method may raise or wait; what is given is read, never changed.
"""

from elasticjob_api.status import JobStatus
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample
from elasticjob_operator.model.rendezvous_view import RendezvousView


class ReconcileObserver:
    """Sees everything, and keeps nothing."""

    def reconciled(self, key: JobKey, obj: Object, status: JobStatus, view: RendezvousView, now_s: float) -> None:
        """A job has had its turn; `status` is what will be said of it, `now_s` since 1970."""

    def recovered(self, key: JobKey, recovered: RecoverySample) -> None:
        """It is known how long the steps of a round took."""

    def deleted(self, key: JobKey) -> None:
        """The job is gone."""
