"""The Secret with a job's certificate, and its mount in the job's pods.

Only the trainer container can read it, as read-only files. The Secret is deleted with the job and has the job's uid in
its name. So a re-created job never uses its predecessor's Secret, nor overwrites another's.
"""

from typing import Any

from elasticjob_api import constants
from elasticjob_api.job import ElasticJob
from elasticjob_operator.model import pod_constants
from elasticjob_operator.settings import Settings

CERTIFICATE, KEY, CA = "tls.crt", "tls.key", "ca.crt"


def secret_name(job: ElasticJob) -> str:
    """Return the name of the Secret with the job's certificate."""
    return f"{job.metadata.name}-etcd-{job.metadata.uid[:8]}"


def render_secret(job: ElasticJob) -> dict[str, Any]:
    """Return the Secret without its contents."""
    owner = {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
    }
    labels = {constants.LABEL_JOB_NAME: job.metadata.name, constants.LABEL_JOB_UID: job.metadata.uid}
    metadata = {
        "name": secret_name(job),
        "namespace": job.metadata.namespace,
        "labels": labels,
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}


def credential_volumes(job: ElasticJob, settings: Settings) -> list[dict[str, Any]]:
    """Return the volume of the Secret, if etcd requires certificates."""
    if not settings.etcd_tls:
        return []
    return [{"name": pod_constants.CREDENTIALS_VOLUME, "secret": {"secretName": secret_name(job)}}]


def credential_mounts(settings: Settings) -> list[dict[str, Any]]:
    """Return its mount in the trainer container, if etcd requires certificates."""
    if not settings.etcd_tls:
        return []
    return [{"name": pod_constants.CREDENTIALS_VOLUME, "mountPath": pod_constants.CREDENTIALS_DIR, "readOnly": True}]
