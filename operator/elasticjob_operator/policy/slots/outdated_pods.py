"""PURE: which pods of a job are of another template or of another installation: not of the life that is wanted now."""

from collections.abc import Mapping

from elasticjob_api.job import ElasticJob
from elasticjob_api.keys import job_prefix
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.policy.lifecycle.installation import is_foreign
from elasticjob_operator.settings import Settings

_HASHED = ("spec.agent", "spec.nprocPerNode", "spec.trainerContainer", "spec.template")
"""What the template's hash is made of."""


def is_template_unclear(job: ElasticJob) -> bool:
    """The spec has a field or a word, of a newer version, in the part that the hash is made of.

    That version's hash is another one than ours, and the pods may well be of its template.
    """
    return any(path.startswith(_HASHED) for path in job.unknown_fields)


def is_outdated(pod: Pod, wanted: Revision) -> bool:
    """The pod was certainly made from another template."""
    return pod.template_hash not in {"", wanted.template_hash}


def outdated_pods(job: ElasticJob, pods: Mapping[str, Pod], settings: Settings, wanted: Revision) -> dict[str, Pod]:
    """Pods by name of another template or another installation, whose deletion was not asked for."""
    meta, unclear = job.metadata, is_template_unclear(job)
    prefix = job_prefix(cluster=settings.cluster_id, namespace=meta.namespace, name=meta.name, uid=meta.uid)

    def is_of_another_life(pod: Pod) -> bool:
        foreign = is_foreign(pod, installation=settings.installation, prefix=prefix)
        return foreign or (not unclear and is_outdated(pod, wanted))

    return {name: pod for name, pod in pods.items() if pod.is_live and is_of_another_life(pod)}
