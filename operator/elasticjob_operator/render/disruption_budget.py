"""The PodDisruptionBudget of a job: a drain or the cluster autoscaler leaves at least minReplicas of its pods.

So a job that cannot run with fewer nodes blocks a drain until it ends or is suspended. The eviction of one of its pods
would stop the training on all of them.
"""

from typing import Any

from elasticjob_api import constants
from elasticjob_api.job import ElasticJob
from elasticjob_api.spec import DisruptionBudget
from elasticjob_operator.render.pod import job_labels, owner_reference


def has_disruption_budget(job: ElasticJob) -> bool:
    """Return whether the job has a budget, which its spec can turn off."""
    return job.spec.pod_disruption_budget is not DisruptionBudget.NONE


def render_disruption_budget(job: ElasticJob) -> dict[str, Any]:
    """Return the budget; unhealthy pods may always be evicted."""
    metadata = {
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "labels": job_labels(job),
        "ownerReferences": [owner_reference(job)],
    }
    spec = {
        "minAvailable": job.spec.effective_min,
        "selector": {"matchLabels": {constants.LABEL_JOB_UID: job.metadata.uid}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
