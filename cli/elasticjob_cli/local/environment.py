"""A container's environment, as a kubelet makes it: literals, `$(VAR)`, fields of the pod, resources.

`environment_faults` rejects references that need a cluster (config maps, secrets) before anything starts. Optional
references are left out, as on a cluster without their object. `resolve` needs a pod without faults.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from elasticjob_api.errors import FieldError
from elasticjob_api.quantity import in_units_of, parse_quantity
from elasticjob_cli.local.pod_template import Json, containers_of

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^()]*)\))")
_MAP_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_PLAIN_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_KINDS = {
    "configMapKeyRef": "a ConfigMap",
    "secretKeyRef": "a Secret",
    "configMapRef": "a ConfigMap",
    "secretRef": "a Secret",
    "fileKeyRef": "a file of a volume",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """The resources of a container without limits."""

    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory_bytes: int = field(default_factory=lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """The facts about a pod that are not in its spec."""

    pod: Json
    node_name: str
    pod_ip: str
    host_ip: str
    machine: Machine = field(default_factory=Machine)


# --- checks ----------------------------------------------------------------------------------------------------


def environment_faults(pod_spec: Json, path: str) -> Iterator[FieldError]:
    """Yield a fault for each part of the containers' environment that this machine cannot provide."""
    for where, container in containers_of(pod_spec):
        for i, source in enumerate(container.get("envFrom") or []):
            yield from _source_faults(source, f"{path}.{where}.envFrom[{i}]")
        for i, variable in enumerate(container.get("env") or []):
            yield from _variable_faults(variable, f"{path}.{where}.env[{i}]")


def _source_faults(source: Json, path: str) -> Iterator[FieldError]:
    for kind in ("configMapRef", "secretRef"):
        if kind in source and not _is_optional(source[kind]):
            yield _unavailable(f"{path}.{kind}", f"the variables of {_KINDS[kind]} {source[kind].get('name', '')!r}")


def _variable_faults(variable: Json, path: str) -> Iterator[FieldError]:
    if not variable.get("name"):
        yield FieldError(f"{path}.name", "is required")
        return
    for kind, reference in (variable.get("valueFrom") or {}).items():
        yield from _reference_faults(variable["name"], kind, reference, path=f"{path}.valueFrom.{kind}")


def _reference_faults(name: str, kind: str, reference: Json, *, path: str) -> Iterator[FieldError]:
    if kind == "fieldRef":
        field_path = str(reference.get("fieldPath", ""))
        if field_path not in _PLAIN_FIELDS and not _MAP_FIELD.fullmatch(field_path):
            known = ", ".join(_PLAIN_FIELDS)
            yield FieldError(
                f"{path}.fieldPath",
                f"{field_path!r} is not one of {known}, metadata.labels['…'], metadata.annotations['…']",
            )
    elif kind == "resourceFieldRef":
        yield from _resource_faults(reference, path)
    elif not _is_optional(reference):
        yield _unavailable(path, f"variable {name!r} from {_KINDS.get(kind, kind)}")


def _resource_faults(reference: Json, path: str) -> Iterator[FieldError]:
    kind, _, resource = str(reference.get("resource", "")).partition(".")
    if kind not in {"limits", "requests"} or resource not in _RESOURCES:
        yield FieldError(f"{path}.resource", "is not limits or requests of cpu, memory or ephemeral-storage")
    try:
        if parse_quantity(reference.get("divisor") or "1") <= 0:
            yield FieldError(f"{path}.divisor", "must be more than 0")
    except ValueError as error:
        yield FieldError(f"{path}.divisor", str(error))


def _is_optional(reference: Json) -> bool:
    return reference.get("optional") is True


def _unavailable(path: str, source: str) -> FieldError:
    return FieldError(path, f"{source} can be read only on a cluster; to run here, give a literal `value`")


# --- resolving ---------------------------------------------------------------------------------------------------


def resolve(container: Json, facts: PodFacts) -> dict[str, str]:
    """Return the variables of the container's `env`, in order; each may refer to those above it."""
    env: dict[str, str] = {}
    for variable in container.get("env") or []:
        if not variable.get("valueFrom"):
            env[variable["name"]] = expand(variable.get("value") or "", env)
        elif (value := _referred(variable["valueFrom"], container, facts)) is not None:
            env[variable["name"]] = value
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return the text with `$(NAME)` replaced by its value and `$$` by `$`; an unknown name remains."""

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] else env.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def _referred(source: Json, container: Json, facts: PodFacts) -> str | None:
    """Return the value, or None for an optional reference to a missing object."""
    if "fieldRef" in source:
        return _field(source["fieldRef"]["fieldPath"], facts)
    if "resourceFieldRef" in source:
        return str(_resource(source["resourceFieldRef"], container, facts))
    return None


def _field(path: str, facts: PodFacts) -> str:
    metadata = facts.pod.get("metadata") or {}
    if match := _MAP_FIELD.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    values = {
        "spec.nodeName": facts.node_name,
        "spec.serviceAccountName": (facts.pod.get("spec") or {}).get("serviceAccountName") or "default",
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
    }
    return str(values[path] if path in values else metadata.get(path.removeprefix("metadata."), ""))


def _resource(reference: Json, container: Json, facts: PodFacts) -> int:
    kind, _, resource = reference["resource"].partition(".")
    owner = _container_named(reference.get("containerName"), container, facts)
    resources = owner.get("resources") or {}
    # As on a cluster: a missing request is the limit, and a missing limit is the machine.
    kinds = ("requests", "limits") if kind == "requests" else ("limits",)
    given = [resources[k][resource] for k in kinds if resource in (resources.get(k) or {})]
    machine = {"cpu": facts.machine.cpus, "memory": facts.machine.memory_bytes}
    quantity = parse_quantity(given[0]) if given else Decimal(machine.get(resource, 0))
    return in_units_of(quantity, parse_quantity(reference.get("divisor") or "1"))


def _container_named(name: str | None, container: Json, facts: PodFacts) -> Json:
    others = {c.get("name"): c for _, c in containers_of(facts.pod.get("spec") or {})}
    return others.get(name, container) if name else container
