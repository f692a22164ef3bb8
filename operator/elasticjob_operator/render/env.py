"""The environment of the agent in its pod: the user's variables first and unchanged, then the operator's."""

from collections.abc import Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_api.bootstrap import Bootstrap, encode_bootstrap
from elasticjob_api.constants import WarmStart
from elasticjob_api.job import ElasticJob, nproc_per_node
from elasticjob_api.keep_bandwidth import default_bandwidth
from elasticjob_api.keys import job_prefix
from elasticjob_api.quantity import bytes_of
from elasticjob_api.spec import Keep
from elasticjob_operator.model import pod_constants
from elasticjob_operator.settings import Settings

Env = dict[str, Any]

_FIELDS = {
    constants.ENV_POD_NAME: "metadata.name",
    constants.ENV_POD_UID: "metadata.uid",
    constants.ENV_POD_IP: "status.podIP",
    constants.ENV_NODE_NAME: "spec.nodeName",
}


def agent_env(
    job: ElasticJob,
    container: Mapping[str, Any],
    *,
    slot: int,
    settings: Settings,
    bootstrap: Bootstrap | None = None,
    persisted_step: int | None = None,
) -> list[Env]:
    """Return the trainer container's own variables, then the agent's.

    `bootstrap` is the part of the spec record that names the pod, `persisted_step` one that is known to be on disk.
    """
    own = list(container.get("env") or [])
    literals = _literals(job, container, slot, settings)
    if bootstrap is not None:
        literals[constants.ENV_SPEC] = encode_bootstrap(bootstrap)
    if job.spec.keep is not None and job.spec.keep.persist_to is not None and persisted_step is not None:
        literals[constants.ENV_KEEP_PERSISTED] = str(persisted_step)
    ours = [{"name": name, "value": value} for name, value in literals.items()]
    fields = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _FIELDS.items()]
    return own + ours + fields


def _literals(job: ElasticJob, container: Mapping[str, Any], slot: int, settings: Settings) -> dict[str, str]:
    meta, nproc = job.metadata, nproc_per_node(job.spec)
    values = {
        constants.ENV_PREFIX: job_prefix(
            cluster=settings.cluster_id, namespace=meta.namespace, name=meta.name, uid=meta.uid
        ),
        constants.ENV_ENDPOINTS: ",".join(settings.etcd_endpoints),
        constants.ENV_SLOT: str(slot),
        constants.ENV_JOB: meta.name,
        constants.ENV_JOB_UID: meta.uid,
        constants.ENV_NPROC: str(nproc),
        constants.ENV_JOIN_TIMEOUT: f"{job.spec.rendezvous.join_timeout_s:.12g}",
        constants.ENV_LOG_DIR: pod_constants.LOG_DIR,
        constants.ENV_TERMINATION_LOG: str(container.get("terminationMessagePath") or pod_constants.TERMINATION_LOG),
    }
    # An installation that is off sets no variable: an older agent would pass it on to its workers.
    wanted = job.spec.agent.warm_start
    if wanted is not None or settings.warm_start is not WarmStart.OFF:
        values[constants.ENV_WARM_START] = (wanted or settings.warm_start).value
    if job.spec.keep is not None:
        values |= _keep(job.spec.keep, has_tls=settings.etcd_tls)
    if settings.etcd_tls:
        values[constants.ENV_ETCD_TLS] = pod_constants.CREDENTIALS_DIR
    if job.spec.agent.interface:
        values[constants.ENV_INTERFACE] = job.spec.agent.interface
        values |= {
            name: job.spec.agent.interface for name in pod_constants.INTERFACES if not _is_set_by_user(container, name)
        }
    if nproc > 1 and not _is_set_by_user(container, pod_constants.OMP_NUM_THREADS):
        values[pod_constants.OMP_NUM_THREADS] = "1"  # as torchrun does: otherwise each worker would use every core
    return values


def _keep(keep: Keep, *, has_tls: bool) -> dict[str, str]:
    bandwidth = default_bandwidth(has_tls=has_tls) if keep.bandwidth is None else bytes_of(keep.bandwidth)
    return {
        constants.ENV_KEEP_DIR: pod_constants.KEEP_DIR,
        constants.ENV_KEEP_SIZE_LIMIT: str(bytes_of(keep.size_limit)),
        constants.ENV_KEEP_COPIES: str(keep.copies),
        constants.ENV_KEEP_BANDWIDTH: str(bandwidth),
        constants.ENV_KEEP_RESTORE_TIMEOUT: f"{keep.restore_timeout_s:.12g}",
        **_persist(keep),
    }


def _persist(keep: Keep) -> dict[str, str]:
    if keep.persist_to is None:
        return {}
    every_s = constants.KEEP_PERSIST_EVERY_S if keep.persist_every_s is None else keep.persist_every_s
    return {
        constants.ENV_KEEP_PERSIST_TO: keep.persist_to,
        constants.ENV_KEEP_PERSIST_EVERY: f"{every_s:.12g}",
        constants.ENV_KEEP_PERSIST_KEEP: str(keep.persist_keep or constants.KEEP_PERSIST_KEEP),
        constants.ENV_KEEP_RESUME: "0" if keep.resume is False else "1",
    }


def _is_set_by_user(container: Mapping[str, Any], name: str) -> bool:
    return any(env.get("name") == name for env in container.get("env") or [])
