"""PURE: what the pods of one turn have in common; each body is made when its pod is created.

A body of ten kilobytes of JSON is some thirty in memory. A plan for ten thousand pods keeps none of them.
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
    """The job, and what its new pods are told."""

    job: ElasticJob
    settings: Settings
    revision: Revision | None = None
    """Of the present life; None: as a life has that begins now."""
    avoided: tuple[str, ...] = ()
    """Nodes that lost a pod lately."""
    brief: Bootstrap | None = None

    def pod(self, slot: int, name: str) -> dict[str, Any]:
        """Return the body of the pod `name` for `slot`."""
        return render_pod(
            self.job,
            slot=slot,
            name=name,
            settings=self.settings,
            revision=self.revision,
            avoided=self.avoided,
            bootstrap=self.brief,
        )
