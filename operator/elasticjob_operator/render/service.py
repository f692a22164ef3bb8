"""The headless service of a job: stable host names `<job>-<slot>.<job>`, even before a pod is ready."""

from typing import Any

from elasticjob_api import constants
from elasticjob_api.job import ElasticJob
from elasticjob_operator.render.pod import job_labels, owner_reference


def render_service(job: ElasticJob) -> dict[str, Any]:
    """Return the service; it selects pods by uid, so it never includes those of a predecessor with the same name."""
    metadata = {
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "labels": job_labels(job),
        "ownerReferences": [owner_reference(job)],
    }
    selector = {constants.LABEL_JOB_UID: job.metadata.uid}
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
