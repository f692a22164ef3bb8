"""The common parts of all sources: metadata, pod templates, a command or a launcher's line, a run policy."""

import copy
from collections.abc import Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_cli.convert import torchrun_args
from elasticjob_cli.convert.fields import Fields
from elasticjob_cli.convert.result import Kind

_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_FORCED = {
    "restartPolicy": "the operator sets it to Never: what fails is restarted by the agent or replaced",
    "hostname": "the operator sets it, every node needs its own",
    "subdomain": "the operator sets it to the job's headless service",
}
FILL_IN = "FILL-IN"


def metadata(source: Fields) -> dict[str, Any]:
    """Name, namespace, labels and annotations; what the server wrote is nobody's loss."""
    meta = source.inner("metadata")
    kept = {name: meta.pop(name) for name in ("name", "namespace", "labels", "annotations") if name in meta}
    for name in _SERVERS_OWN:
        meta.pop(name)
    annotations = {name: value for name, value in kept.pop("annotations", {}).items() if name != _LAST_APPLIED}
    if "name" not in kept:
        kept["name"] = "job"
        meta.add_note("name", Kind.CHANGED, f"there is none, so it is {kept['name']}")
    return {**kept, **({"annotations": annotations} if annotations else {})}


def template(role: Fields) -> tuple[dict[str, Any], Fields]:
    """A copy of the pod template that may be changed, and where notes about its pod belong."""
    value = role.pop("template")
    if not isinstance(value, Mapping):
        role.add_note("template", Kind.FILL_IN, "there is none: write the pod template with image and command")
        value = {}
    made: dict[str, Any] = copy.deepcopy(dict(value))
    made.pop("status", None)
    spec = made.setdefault("spec", {})
    for name, why in _FORCED.items():
        if spec.pop(name, None) is not None:
            role.add_note(f"template.spec.{name}", Kind.LEFT_OUT, why)
    meta = made.get("metadata") or {}
    for name in [name for name in meta if name not in {"labels", "annotations"}]:
        if meta.pop(name) is not None and name not in _SERVERS_OWN:
            role.add_note(f"template.metadata.{name}", Kind.LEFT_OUT, "the operator names the pods")
    if not meta:
        made.pop("metadata", None)
    return made, Fields({}, f"{role.path}.template.spec", role.notes)


def trainer_index(made: Mapping[str, Any], container_name: str) -> int:
    """Which container trains: the one of this name, else the first."""
    containers = made["spec"].setdefault("containers", [])
    if not containers:
        containers.append({"name": "trainer"})
    return next((i for i, each in enumerate(containers) if each.get("name") == container_name), 0)


def unwrap_command(
    made: Mapping[str, Any], index: int, where: Fields, *, bare_arguments_are_launchers: bool = False
) -> dict[str, Any]:
    """Take a launcher out of the trainer's command; the spec fields that its options mean.

    An ElasticJob names the whole command; the image's own ENTRYPOINT cannot be known.
    """
    container = made["spec"]["containers"][index]
    path = f"containers[{index}]"
    container.setdefault("name", "trainer")
    if container["name"].startswith(constants.RESERVED_PREFIX):
        where.add_note(
            f"{path}.name", Kind.CHANGED, f"{container['name']} is trainer: {constants.RESERVED_PREFIX}* is ours"
        )
        container["name"] = "trainer"
    if not container.get("image"):
        container["image"] = FILL_IN
        where.add_note(f"{path}.image", Kind.FILL_IN, "there is none: name the image")
    command, arguments = list(container.get("command") or ()), list(container.get("args") or ())
    if bare_arguments_are_launchers and not command:
        command = ["torchrun"]
        container["command"] = command
    if not command:
        where.add_note(
            f"{path}.command",
            Kind.FILL_IN,
            "is absent, and what the image starts by itself cannot be known: write its ENTRYPOINT, without a launcher",
        )
        container["command"] = [FILL_IN]
        return {}
    found = torchrun_args.unwrap([*command, *arguments])
    if found is None:
        return {}
    container["command"] = list(found.command)
    container.pop("args", None)
    where.add_note(
        f"{path}.command", Kind.CHANGED, f"{found.program} is left out: the agent starts and restarts workers"
    )
    for option, kind, message in found.notes:
        where.add_note(f"{path}.command {option}", kind, message)
    return dict(found.spec)


def run_policy(policy: Fields) -> dict[str, Any]:
    """`runPolicy` as the training operators have it."""
    spec: dict[str, Any] = {
        "cleanPodPolicy": policy.pop("cleanPodPolicy"),
        "ttlSecondsAfterFinished": policy.pop("ttlSecondsAfterFinished"),
        "activeDeadlineSeconds": policy.pop("activeDeadlineSeconds"),
        "backoffLimit": policy.pop("backoffLimit"),
        "suspend": policy.pop("suspend") or None,
    }
    policy.leave_out(
        "managedBy", "another controller's name means nothing here; write spec.managedBy by hand if you need it"
    )
    scheduling = policy.inner("schedulingPolicy")
    scheduling.leave_out("minAvailable", "there is no gang: a round begins with minReplicas nodes")
    scheduling.leave_out("queue", "label the job for your queue, as kueue.x-k8s.io/queue-name")
    scheduling.leave_out("minResources", "there is no gang: requests of the template decide")
    scheduling.leave_out("priorityClass", "write it to spec.template.spec.priorityClassName")
    scheduling.leave_out("scheduleTimeoutSeconds", "spec.startupDeadlineSeconds ends a job that does not start")
    return spec


def exit_code_rule(policy: str | None) -> dict[str, Any]:
    """`restartPolicy: ExitCode`: 1 to 127 are permanent."""
    if policy != "ExitCode":
        return {}
    rule = {"name": "permanent", "action": "FailJob", "onExitCodes": {"operator": "In", "values": list(range(1, 128))}}
    return {"failurePolicy": {"rules": [rule]}}


def resolve_conflict(said: Mapping[str, Any], wanted: Mapping[str, Any], where: Fields) -> dict[str, Any]:
    """What the launcher's line said, under what the object says: both set the same fields, and the object wins."""
    made = {name: value for name, value in wanted.items() if value is not None}
    for name, value in said.items():
        if value is not None and made.get(name, value) != value:
            where.add_note(f"launcher's {name}", Kind.LEFT_OUT, f"{value} yields to the object's own {made[name]}")
    return {**said, **made}
