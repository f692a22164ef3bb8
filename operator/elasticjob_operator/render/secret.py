"""PURE: a job's certificate in the cluster: the Secret that holds it, and how its pods see it.

Only the trainer container sees it, as files, read-only. The Secret is deleted with the job and has the job's uid in its
name. So a job that was made again never meets the one of its predecessor, nor overwrites another's.
"""

from typing import Any

from elasticjob_api import constants
from elasticjob_api.job import ElasticJob
from elasticjob_operator.model import pod_constants
from elasticjob_operator.settings import Settings

CERTIFICATE, KEY, CA = "tls.crt", "tls.key", "ca.crt"


def secret_name(job: ElasticJob) -> str:
    """Of the Secret with the job's certificate."""
    return f"{job.metadata.name}-etcd-{job.metadata.uid[:8]}"


def render_secret(job: ElasticJob) -> dict[str, Any]:
    """The Secret without its contents."""
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
    """The volume, where etcd wants certificates."""
    if not settings.etcd_tls:
        return []
    return [{"name": pod_constants.CREDENTIALS_VOLUME, "secret": {"secretName": secret_name(job)}}]


def credential_mounts(settings: Settings) -> list[dict[str, Any]]:
    """Where the trainer container sees it."""
    if not settings.etcd_tls:
        return []
    return [{"name": pod_constants.CREDENTIALS_VOLUME, "mountPath": pod_constants.CREDENTIALS_DIR, "readOnly": True}]
