"""When a job's import profile is kept for later jobs, and under which name they find it.

A profile has the imports of one command in one image. So its name follows from both, and the namespace is in its key:
jobs of another namespace never see it. It is kept after each change of the round, and once at the job's end.
"""

import hashlib
import json

from elasticjob_api.constants import WarmStart
from elasticjob_api.job import ElasticJob, trainer_container
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.actions import KeepImportProfile
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.status.build import is_finished
from elasticjob_operator.settings import Settings

_NAME_LENGTH = 32


def profile_name(job: ElasticJob, settings: Settings) -> str:
    """Return the name for the job's image and command; empty if its workers never start warm."""
    if (job.spec.agent.warm_start or settings.warm_start) is WarmStart.OFF:
        return ""
    container = trainer_container(job.spec)
    command = [*(container.get("command") or []), *(container.get("args") or [])]
    text = json.dumps([container.get("image") or "", container.get("workingDir") or "", *command], default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_NAME_LENGTH]


def profile_to_keep(snapshot: JobSnapshot, status: JobStatus) -> list[KeepImportProfile]:
    """Return the action that keeps the job's profile, if it may be new."""
    moment = (status.rendezvous_round, is_finished(status))
    if moment[1] and snapshot.job_state.profile_kept is None:
        return []  # it had ended before this process began, and a later job may have a newer one
    name = profile_name(snapshot.job, snapshot.settings)
    if not name or not status.rendezvous_round or snapshot.job_state.profile_kept == moment:
        return []
    return [KeepImportProfile(name, moment)]
