"""The rules between a job's fields, equal to the CRD's CEL rules, for use without an API server.

`elasticjob run` rejects the manifests that the API server would: a test applies one table of bad manifests to both.
Messages name the field, its value, and the values allowed. `image` is not required here: a local run ignores it.
"""

import re
from collections.abc import Iterator
from typing import Any

from elasticjob_api import codec, constants
from elasticjob_api.errors import FieldError
from elasticjob_api.keep_validation import keep_errors
from elasticjob_api.quantity import is_size
from elasticjob_api.spec import FailureAction, JobSpec, Rule
from elasticjob_api.template_schema import schema_errors

_JOB_NAME = re.compile(r"[a-z]([-a-z0-9]{0,49}[a-z0-9])?")
_PART_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_FORCED = {
    "restartPolicy": "the operator sets it to Never; remove it",
    "hostname": "the operator sets it, because every node needs its own; remove it",
    "subdomain": "the operator sets it to the job's headless service; remove it",
}
_SIGNALS = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2")
_GPU_SUFFIX = "/gpu"
_MIG = "nvidia.com/mig-"
_POD = "spec.template.spec"
_MAX_NPROC = 1024
_MAX_REPLICAS = 65_535


def validate(name: str, spec: JobSpec) -> Iterator[FieldError]:
    """Return an error for each rule that a job of this name breaks."""
    if not _JOB_NAME.fullmatch(name):
        yield FieldError(
            "metadata.name",
            f"is {name!r}; it must be at most 51 lower-case letters, digits and '-', begin with a letter"
            " and not end with '-'; the service, the hosts and the pods are named after it",
        )
    yield from _replica_errors(spec)
    yield from _number_errors(spec)
    yield from _size_errors(spec)
    if spec.keep is not None:
        yield from keep_errors(spec.keep)
    for index, rule in enumerate(spec.failure_policy.rules):
        yield from _rule_errors(f"spec.failurePolicy.rules[{index}]", rule)
    misshapen = list(schema_errors(spec.template, "spec.template"))
    yield from misshapen or _template_errors(spec)


def _replica_errors(spec: JobSpec) -> Iterator[FieldError]:
    low, high = spec.effective_min, spec.effective_max
    numbers = {"replicas": spec.replicas, "minReplicas": spec.min_replicas, "maxReplicas": spec.max_replicas}
    for field, number in numbers.items():
        if number is not None and not 1 <= number <= _MAX_REPLICAS:
            yield FieldError(f"spec.{field}", f"is {number}; it must be from 1 to {_MAX_REPLICAS}")
    if not low <= spec.replicas <= high:
        wanted = f"from {low} (minReplicas) to {high} (maxReplicas)"
        yield FieldError("spec.replicas", f"is {spec.replicas}; it must be {wanted}")
    if spec.replica_step is not None and spec.allowed_replicas:
        yield FieldError("spec.allowedReplicas", "cannot be used together with spec.replicaStep; keep one of them")
    if spec.replica_step is not None and spec.replica_step < 1:
        yield FieldError("spec.replicaStep", f"is {spec.replica_step}; it must be at least 1")
    if spec.allowed_replicas and not any(low <= n <= spec.replicas for n in spec.allowed_replicas):
        wanted = f"from {low} (minReplicas) to {spec.replicas} (replicas), or the job could never run"
        yield FieldError("spec.allowedReplicas", f"must have a number {wanted}")


def _number_errors(spec: JobSpec) -> Iterator[FieldError]:
    if isinstance(spec.nproc_per_node, int) and not 1 <= spec.nproc_per_node <= _MAX_NPROC:
        yield FieldError("spec.nprocPerNode", f"is {spec.nproc_per_node}; it must be from 1 to {_MAX_NPROC}, or auto")
    for name in ("max_restarts", "backoff_limit"):
        if getattr(spec, name) < 0:
            yield FieldError(f"spec.{codec.json_name(name)}", f"is {getattr(spec, name)}; it must not be negative")
    if spec.rendezvous.keep_alive_s < 2:  # noqa: PLR2004 -- etcd grants no shorter lease
        yield FieldError("spec.rendezvous.keepAliveSeconds", "must be at least 2: etcd grants no shorter lease")
    if spec.restart_backoff.initial_s > spec.restart_backoff.max_s:
        yield FieldError("spec.restartBackoff.initialSeconds", "must not be above spec.restartBackoff.maxSeconds")
    if spec.graceful_shutdown.signal not in _SIGNALS:
        known = ", ".join(_SIGNALS)
        yield FieldError("spec.gracefulShutdown.signal", f"is {spec.graceful_shutdown.signal!r}; it must be {known}")
    yield from _fraction_errors("spec", codec.write(spec))


def _fraction_errors(path: str, value: Any) -> Iterator[FieldError]:
    """Yield an error for each fraction: in a manifest, as everywhere in Kubernetes, seconds are whole numbers."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name != "template":
                yield from _fraction_errors(f"{path}.{name}", item)
    elif isinstance(value, float):
        yield FieldError(path, f"is {value}; it must be a whole number")


def _size_errors(spec: JobSpec) -> Iterator[FieldError]:
    for name in ("shm_size_limit", "log_size_limit"):
        size = getattr(spec.agent, name)
        if size is not None and not is_size(size):
            yield FieldError(f"spec.agent.{codec.json_name(name)}", f"is {size!r}; it must be a quantity, as 8Gi")


def _rule_errors(path: str, rule: Rule) -> Iterator[FieldError]:
    matchers = [rule.on_exit_codes, rule.on_pod_conditions, rule.on_reasons]
    if sum(map(bool, matchers)) != 1:
        yield FieldError(path, "must have exactly one of onExitCodes, onPodConditions and onReasons")
    elif rule.action is FailureAction.RESTART_WORKERS and not rule.on_exit_codes:
        yield FieldError(path, "action RestartWorkers goes only with onExitCodes: a failed pod has no workers")
    elif rule.action is FailureAction.REPLACE_POD and rule.on_exit_codes:
        yield FieldError(path, "action ReplacePod goes only with onPodConditions or onReasons")
    if rule.on_exit_codes and any(code < 1 for code in rule.on_exit_codes.values):
        yield FieldError(f"{path}.onExitCodes.values", "must be exit codes from 1: 0 is no failure")


def _template_errors(spec: JobSpec) -> Iterator[FieldError]:
    pod = spec.template.get("spec")
    containers = pod.get("containers") if isinstance(pod, dict) else None
    if not isinstance(pod, dict) or not isinstance(containers, list) or not containers:
        yield FieldError(f"{_POD}.containers", "is required: at least the trainer container")
        return
    for name, why in _FORCED.items():
        if name in pod and not (name == "restartPolicy" and pod[name] == "Never"):
            yield FieldError(f"{_POD}.{name}", f"is {pod[name]!r}; {why}")
    yield from _trainer_errors(spec, containers)
    yield from _name_errors(pod)


def trainer_index(spec: JobSpec, containers: list[Any]) -> int | None:
    """Return the index of the trainer among the containers; None if no container has the name given."""
    if spec.trainer_container is None:
        return 0
    return next((i for i, c in enumerate(containers) if _name(c) == spec.trainer_container), None)


def _trainer_errors(spec: JobSpec, containers: list[Any]) -> Iterator[FieldError]:
    index = trainer_index(spec, containers)
    if index is None:
        why = f"is {spec.trainer_container!r}, and no container of {_POD}.containers has that name"
        yield FieldError("spec.trainerContainer", why)
        return
    if not containers[index].get("command"):
        why = "is required: the agent starts it, and the entry point of an image cannot be known"
        yield FieldError(f"{_POD}.containers[{index}].command", why)
    limits = (containers[index].get("resources") or {}).get("limits") or {}
    yield from _gpu_errors(spec, f"{_POD}.containers[{index}].resources.limits", limits)


def _gpu_errors(spec: JobSpec, path: str, limits: dict[str, Any]) -> Iterator[FieldError]:
    gpus = {name: str(count) for name, count in limits.items() if is_gpu(name)}
    for name, count in gpus.items():
        if not count.isdecimal():
            yield FieldError(f"{path}.{name}", f"is {limits[name]!r}; it must be a whole number of GPUs")
    counts = [count.lstrip("0") for count in gpus.values() if count.isdecimal()]
    # The length comes first: Python reads no number of more than 4,300 digits.
    is_many = any(len(count) > len(str(_MAX_NPROC)) for count in counts)
    if spec.nproc_per_node == "auto" and (is_many or sum(int(count or 0) for count in counts) > _MAX_NPROC):
        why = f"has more than {_MAX_NPROC} GPUs, each for one worker; correct it, or set spec.nprocPerNode"
        yield FieldError(path, why)


def is_gpu(resource: str) -> bool:
    """Whether each unit of a resource carries one worker: NVIDIA's and AMD's GPUs, and slices of them."""
    return resource.endswith(_GPU_SUFFIX) or resource.startswith(_MIG)


def _name_errors(pod: dict[str, Any]) -> Iterator[FieldError]:
    for section in ("containers", "initContainers", "volumes"):
        names: set[str] = set()
        for index, part in enumerate(pod.get(section) or []):
            path, name = f"{_POD}.{section}[{index}].name", _name(part)
            if not _PART_NAME.fullmatch(name):
                yield FieldError(path, f"is {name!r}; it must be lower-case letters, digits and '-'")
            if name.startswith(constants.RESERVED_PREFIX):
                yield FieldError(path, f"is {name!r}; names that begin with elasticjob- are reserved, choose another")
            if name in names:
                yield FieldError(path, f"is {name!r} a second time; each needs a name of its own")
            names.add(name)
            yield from _port_errors(f"{_POD}.{section}[{index}]", part)


def _port_errors(path: str, part: Any) -> Iterator[FieldError]:
    ports = part.get("ports") if isinstance(part, dict) else None
    for index, port in enumerate(ports or []):
        if _name(port).startswith(constants.RESERVED_PREFIX):
            why = "names that begin with elasticjob- are reserved, choose another"
            yield FieldError(f"{path}.ports[{index}].name", why)


def _name(part: Any) -> str:
    return str(part.get("name", "")) if isinstance(part, dict) else ""
