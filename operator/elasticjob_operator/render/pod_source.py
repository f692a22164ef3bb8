"""The common input of all pods of one plan; each body is rendered when its pod is created.

A body of 10 KB of JSON takes about 30 KB of memory. So a plan for ten thousand pods holds none of them.
"""

from dataclasses import dataclass
from typing import Any

from elasticjob_api.bootstrap import Bootstrap
from elasticjob_api.job import ElasticJob
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class PodSource:
    """The job, and the common input of its new pods."""

    job: ElasticJob
    settings: Settings
    revision: Revision | None = None
    """The revision of the current life; None: that of a job that starts or resumes now."""
    avoided: tuple[str, ...] = ()
    """Nodes that lost a pod recently."""
    bootstrap: Bootstrap | None = None

    def pod(self, slot: int, name: str) -> dict[str, Any]:
        """Return the body of the pod `name` for `slot`."""
        return render_pod(
            self.job,
            slot=slot,
            name=name,
            settings=self.settings,
            revision=self.revision,
            avoided=self.avoided,
            bootstrap=self.bootstrap,
        )
