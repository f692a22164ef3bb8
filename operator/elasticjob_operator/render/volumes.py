"""The operator's volumes in a training pod: shared memory, logs, kept steps, the agent's payload."""

from collections.abc import Mapping
from typing import Any

from elasticjob_api.job import ElasticJob
from elasticjob_api.spec import AgentMode
from elasticjob_operator.model import pod_constants

Part = dict[str, Any]


def volumes(job: ElasticJob, container: Mapping[str, Any]) -> list[Part]:
    """Return the volumes for the pod."""
    agent = job.spec.agent
    found = [{"name": pod_constants.LOG_VOLUME, "emptyDir": {"sizeLimit": agent.log_size_limit}}]
    if needs_shm(container):
        limit = {"sizeLimit": agent.shm_size_limit} if agent.shm_size_limit else {}
        found.append({"name": pod_constants.SHM_VOLUME, "emptyDir": {"medium": "Memory", **limit}})
    if job.spec.keep is not None:
        kept = {"medium": "Memory", "sizeLimit": job.spec.keep.size_limit}
        found.append({"name": pod_constants.KEEP_VOLUME, "emptyDir": kept})
    if agent.mode is AgentMode.INJECT:
        found.append({"name": pod_constants.AGENT_VOLUME, "emptyDir": {}})
    return found


def mounts(job: ElasticJob, container: Mapping[str, Any]) -> list[Part]:
    """Return their mounts in the trainer container."""
    found: list[Part] = [{"name": pod_constants.LOG_VOLUME, "mountPath": pod_constants.LOG_DIR}]
    if needs_shm(container):
        found.append({"name": pod_constants.SHM_VOLUME, "mountPath": pod_constants.SHM_PATH})
    if job.spec.keep is not None:
        found.append({"name": pod_constants.KEEP_VOLUME, "mountPath": pod_constants.KEEP_DIR})
    if job.spec.agent.mode is AgentMode.INJECT:
        found.append({"name": pod_constants.AGENT_VOLUME, "mountPath": pod_constants.AGENT_HOME, "readOnly": True})
    return found


def needs_shm(container: Mapping[str, Any]) -> bool:
    """Return whether the template mounts no volume at /dev/shm: the default of 64 MiB is too small for data loaders."""
    own = container.get("volumeMounts") or []
    return all(str(mount.get("mountPath", "")).rstrip("/") != pod_constants.SHM_PATH for mount in own)
