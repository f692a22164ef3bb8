"""The common input of all pods of one plan; each body is rendered when its pod is created.

A body of 10 KB of JSON takes about 30 KB of memory. So a plan for ten thousand pods holds none of them.
"""

from dataclasses import dataclass

from elasticjob_api.bootstrap import Bootstrap
from elasticjob_api.job import ElasticJob
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class PodSource:
    """The job, and the common input of its new pods."""

    job: ElasticJob
    settings: Settings
    revision: Revision | None = None
    """The template and the agent; None: those of a job that starts or resumes now."""
    avoided: tuple[str, ...] = ()
    """Names of nodes where the pods should preferably not run: they lost a pod recently."""
    bootstrap: Bootstrap | None = None
    """The part of the spec record that names the pods, for their agents."""
    persisted_step: int | None = None
    """The newest step that is known to be in `keep.persistTo`: the right volume has it, or a newer one."""
