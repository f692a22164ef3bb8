"""Pods of a job that were made from another template or by another installation than the current one."""

from collections.abc import Mapping

from elasticjob_api.job import ElasticJob
from elasticjob_api.keys import job_prefix
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.policy.lifecycle.installation import is_foreign
from elasticjob_operator.settings import Settings

_HASHED = ("spec.agent", "spec.nprocPerNode", "spec.trainerContainer", "spec.template", "spec.keep")
"""The fields that the template hash covers."""


def is_template_unclear(job: ElasticJob) -> bool:
    """Return whether a field that the template hash covers has a name or a value of a newer version.

    The newer version computes another hash for the same template, so a different hash proves nothing about the pods.
    """
    return any(path.startswith(_HASHED) for path in job.unknown_fields)


def is_outdated(pod: Pod, wanted: Revision) -> bool:
    """Return whether the pod was certainly made from another template."""
    return pod.template_hash not in {"", wanted.template_hash}


def outdated_pods(job: ElasticJob, pods: Mapping[str, Pod], settings: Settings, wanted: Revision) -> dict[str, Pod]:
    """Return the live pods, by name, of another template or another installation."""
    meta, unclear = job.metadata, is_template_unclear(job)
    prefix = job_prefix(cluster=settings.cluster_id, namespace=meta.namespace, name=meta.name, uid=meta.uid)

    def is_other(pod: Pod) -> bool:
        foreign = is_foreign(pod, installation=settings.installation, prefix=prefix)
        return foreign or (not unclear and is_outdated(pod, wanted))

    return {name: pod for name, pod in pods.items() if pod.is_live and is_other(pod)}
