"""A pod of a job: the user's template, with the agent in front of the command, and the operator's additions.

All fields of the template that the operator does not have to set are kept unchanged, unknown fields too.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_api.job import ElasticJob, trainer_container
from elasticjob_api.quantity import bytes_of
from elasticjob_api.spec import AgentMode, Keep
from elasticjob_operator.model import pod_constants
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.model.revision import Revision, wanted_revision
from elasticjob_operator.render.affinity import affinity
from elasticjob_operator.render.env import agent_env
from elasticjob_operator.render.init_container import init_containers
from elasticjob_operator.render.secret import credential_mounts, credential_volumes
from elasticjob_operator.render.validation import validate
from elasticjob_operator.render.volumes import mounts, volumes
from elasticjob_operator.settings import Settings


def render_pod(source: PodSource, *, slot: int, name: str) -> dict[str, Any]:
    """Return the pod `name` for `slot`.

    Raises:
        RenderError: the job's template uses the operator's names.
    """
    job, settings = source.job, source.settings
    validate(job)
    revision = source.revision or wanted_revision(job, settings)
    template = copy.deepcopy(dict(job.spec.template))
    spec, trainer = template["spec"], trainer_container(job.spec)
    spec |= {
        "restartPolicy": "Never",
        "hostname": f"{job.metadata.name}-{slot}",
        "subdomain": job.metadata.name,
        "terminationGracePeriodSeconds": _grace_s(job),
        "containers": [
            _trainer(source, container, slot) if container == trainer else container for container in spec["containers"]
        ],
        "volumes": [*(spec.get("volumes") or []), *volumes(job, trainer), *credential_volumes(job, settings)],
    }
    if added := init_containers(job, revision.agent_image):
        spec["initContainers"] = [*added, *(spec.get("initContainers") or [])]
        spec |= _pull_secrets(spec, settings)
    named = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if not named and spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = False  # the agent needs none; a user who needs one names an account
    if source.avoided:
        spec["affinity"] = affinity(spec.get("affinity"), source.avoided)
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"  # otherwise the name of etcd's service cannot be resolved
    metadata = _metadata(job, template.get("metadata") or {}, revision, settings, slot=slot, name=name)
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata, "spec": spec}


def _pull_secrets(spec: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the pull secrets of the template, then those of the agent's image."""
    own = list(spec.get("imagePullSecrets") or [])
    known = {secret.get("name") for secret in own}
    ours = [{"name": name} for name in settings.agent_image_pull_secrets if name not in known]
    return {"imagePullSecrets": own + ours} if ours else {}


def owner_reference(job: ElasticJob) -> dict[str, Any]:
    """Return the owner reference by which an object is deleted with the job."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def job_labels(job: ElasticJob) -> dict[str, str]:
    """Return the labels of all objects of the job."""
    return {constants.LABEL_JOB_NAME: job.metadata.name, constants.LABEL_JOB_UID: job.metadata.uid}


def _metadata(
    job: ElasticJob, given: dict[str, Any], revision: Revision, settings: Settings, *, slot: int, name: str
) -> dict[str, Any]:
    of_pod = {constants.LABEL_SLOT: str(slot), constants.LABEL_TEMPLATE_HASH: revision.template_hash}
    labels = {**(given.get("labels") or {}), **job_labels(job), **of_pod}
    ours: dict[str, Any] = {"name": name, "namespace": job.metadata.namespace, "labels": labels}
    # Like Kubernetes' own controllers: only labels and annotations of a template's metadata apply to its pods.
    if annotations := {**(given.get("annotations") or {}), **_annotations(revision, settings)}:
        ours["annotations"] = annotations
    return {**ours, "ownerReferences": [owner_reference(job)]}


def _annotations(revision: Revision, settings: Settings) -> dict[str, str]:
    """Return the facts about the pod that the operator needs later and that no other field shows."""
    ours = {
        constants.ANNOTATION_AGENT_IMAGE: revision.agent_image,
        constants.ANNOTATION_INSTALLATION: settings.installation,
    }
    return {name: value for name, value in ours.items() if value}


def _grace_s(job: ElasticJob) -> int:
    own = job.spec.template["spec"].get("terminationGracePeriodSeconds") or 0
    stop_s = math.ceil(job.spec.graceful_shutdown.seconds) + pod_constants.GRACE_MARGIN_S
    return max(int(own), stop_s) + _linger_s(job.spec.keep)


def _linger_s(keep: Keep | None) -> int:
    """Return the seconds for writing the last step to other nodes or to a disk, after the workers have stopped."""
    if keep is None:
        return 0
    if keep.persist_to:  # a shared disk may be far slower than the network
        return constants.KEEP_LINGER_S
    # Without copies, too: others fetch what this pod has alone.
    return min(constants.KEEP_LINGER_S, math.ceil(bytes_of(keep.size_limit) / constants.KEEP_LINGER_BYTES_PER_S))


def _trainer(source: PodSource, container: dict[str, Any], slot: int) -> dict[str, Any]:
    job = source.job
    agent = pod_constants.INJECTED_AGENT if job.spec.agent.mode is AgentMode.INJECT else pod_constants.PROVIDED_AGENT
    command = [agent, "--pod", "--", *container["command"], *(container.get("args") or [])]
    rest = {field: value for field, value in container.items() if field != "args"}
    return {
        **rest,
        "command": command,
        "env": agent_env(
            job,
            container,
            slot=slot,
            settings=source.settings,
            bootstrap=source.bootstrap,
            persisted_step=source.persisted_step,
        ),
        "volumeMounts": [
            *(container.get("volumeMounts") or []),
            *mounts(job, container),
            *credential_mounts(source.settings),
        ],
    }
