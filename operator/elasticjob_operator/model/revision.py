"""PURE: what all pods of one life of a job have in common, and a short hash of the part that the spec gives.

A life lasts from the start or a resume to the next suspension or the end. The hash is made of the spec, not of the
rendered pod. A new version of the operator may render the same spec in another way, and must not replace running pods
for that. Fields that may change while pods run (graces, budgets) are not part of it.
"""

import hashlib
import json
from dataclasses import dataclass

from elasticjob_api import codec
from elasticjob_api.job import ElasticJob
from elasticjob_api.spec import AgentMode
from elasticjob_operator.settings import Settings

_HASH_LENGTH = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """One template and one agent."""

    template_hash: str
    agent_image: str = ""
    """Image of the init container that brings the agent; empty with agent.mode Provided."""


def wanted_revision(job: ElasticJob, settings: Settings) -> Revision:
    """The revision that a life of the job would have if it began now."""
    injected = job.spec.agent.mode is AgentMode.INJECT
    return Revision(template_hash(job), (job.spec.agent.image or settings.agent_image) if injected else "")


def template_hash(job: ElasticJob) -> str:
    """The hash of what the spec says of the pods; the same in every process and, for an old spec, in every version."""
    spec = job.spec
    agent = {name: value for name, value in codec.write(spec.agent).items() if name != "reportPeriodSeconds"}
    made_of = [spec.template, spec.nproc_per_node, spec.trainer_container, agent]
    text = json.dumps(made_of, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
