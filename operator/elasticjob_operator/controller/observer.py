"""The interface of an observer of the reconciler; this one ignores all. `ui.Board` is that of the web page.

No method may raise or wait; what is given is read, never changed.
"""

from elasticjob_api.status import JobStatus
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import Recovered
from elasticjob_operator.model.rendezvous_view import View


class Onlooker:
    """Sees everything, and keeps nothing."""

    def note(self, key: JobKey, obj: Object, status: JobStatus, view: View, now_s: float) -> None:
        """A job has had its turn; `status` is what will be said of it, `now_s` since 1970."""

    def measured(self, key: JobKey, recovered: Recovered) -> None:
        """It is known how long the steps of a round took."""

    def forget(self, key: JobKey) -> None:
        """The job is gone."""
