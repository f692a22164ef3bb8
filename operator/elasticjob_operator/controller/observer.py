"""The interface of an observer of the reconciler. `ui.PageState` is the observer of the web page.

No method may raise or wait, and none may change its arguments.
"""

from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample


class ReconcileObserver:
    """An observer that ignores every call."""

    def reconciled(self, key: JobKey, obj: Object, status: JobStatus, view: RendezvousView, now_s: float) -> None:
        """Record a reconcile: `status` is about to be written, `now_s` is in seconds since 1970."""

    def recovered(self, key: JobKey, recovered: RecoverySample) -> None:
        """Record how long the steps of a recovery took."""

    def deleted(self, key: JobKey) -> None:
        """Record that the job no longer exists, or no longer belongs to this installation."""
