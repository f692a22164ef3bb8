"""The revision of a job's pods: a short hash of the part of the spec that makes them, and the agent's image.

All pods of one life have the same revision. A *life* of a job lasts from its start or a resume to the next suspension
or its end. The hash covers the spec, not the rendered pod. A new operator version may render the same spec differently,
and must not replace running pods for that. Fields that may change while pods run (graces, budgets) are left out.
"""

import hashlib
import json
from dataclasses import dataclass, replace

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
    """Image of the init container that copies the agent; empty with agent.mode Provided."""


def wanted_revision(job: ElasticJob, settings: Settings) -> Revision:
    """Return the revision that the job would have if it started or resumed now."""
    injected = job.spec.agent.mode is AgentMode.INJECT
    return Revision(template_hash(job), (job.spec.agent.image or settings.agent_image) if injected else "")


def template_hash(job: ElasticJob) -> str:
    """Return the hash of the spec's fields about pods.

    It is the same in every process and, for a spec without new fields, in every version.
    """
    spec = job.spec
    agent = {name: value for name, value in codec.write(spec.agent).items() if name != "reportPeriodSeconds"}
    hashed = [spec.template, spec.nproc_per_node, spec.trainer_container, agent]
    if spec.keep is not None:  # an element that earlier versions do not have
        # 256Mi was the default once and was not written, so its hash is the same as that of no bandwidth.
        was_default = spec.keep.bandwidth == "256Mi"
        hashed.append(codec.write(replace(spec.keep, bandwidth=None) if was_default else spec.keep))
    text = json.dumps(hashed, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
