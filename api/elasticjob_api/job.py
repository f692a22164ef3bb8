"""An ElasticJob as a record, and the two parsers of a manifest.

`parse_job` is strict: it reports every fault it finds, each with the field's path, the cause and the cure. It refuses
everything that CEL rules in the CRD refuse, so that `elasticjob run` and the API server agree. `parse_stored_job` is
for objects of an API server, whose CRD may be newer. There, fields that this version does not know are no fault; they
are listed in `unknown_fields`.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api import codec, constants, validation
from elasticjob_api.errors import CodecError, FieldError, InvalidSpec
from elasticjob_api.job_size import size_of
from elasticjob_api.nesting import JOB_LEVELS, is_deeper
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The fields of an object's metadata that affect decisions."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJob:
    """One job: the wanted state, and the last recorded status."""

    metadata: Metadata
    spec: JobSpec
    status: JobStatus = field(default_factory=JobStatus)
    unknown_fields: tuple[str, ...] = ()
    """Paths in the stored spec whose field or value this version does not know; sorted."""


def parse_job(manifest: Any) -> ElasticJob:
    """Return the job in a manifest that a person wrote; raise InvalidSpec with every fault found."""
    return _parse(manifest, lambda spec: codec.read(JobSpec, spec, "spec"))


def parse_stored_job(manifest: Any) -> ElasticJob:
    """Return the job in an object of an API server whose CRD may be newer; raise InvalidSpec with every fault found.

    An unknown field is ignored. A field with an unknown value takes its default. Both are in `unknown_fields`.
    """
    unknown: list[str] = []
    job = _parse(manifest, lambda spec: codec.read_known(JobSpec, spec, "spec", unknown))
    return dataclasses.replace(job, unknown_fields=tuple(sorted(unknown)))


def read_status(value: Any, ignored: list[str] | None = None) -> JobStatus:
    """Return the readable part of a stored status; a newer operator may have written it, or it may be broken."""
    try:
        return codec.read_what_fits(JobStatus, {} if value is None else value, "status", ignored)
    except CodecError as error:
        if ignored is not None:
            ignored.append(error.path)
        return JobStatus()


def _parse(manifest: Any, read_spec: Callable[[Any], JobSpec]) -> ElasticJob:
    if not isinstance(manifest, dict):
        raise InvalidSpec([FieldError("manifest", "is not an object; it must be one ElasticJob")])
    faults = list(_kind_errors(manifest))
    if faults:
        raise InvalidSpec(faults)
    if is_deeper(manifest.get("spec"), JOB_LEVELS):
        raise InvalidSpec([FieldError("spec", f"is nested more than {JOB_LEVELS} levels deep; make it flatter")])
    if too_large := size_of(manifest.get("spec")).fault:
        raise InvalidSpec([FieldError("spec", too_large)])
    try:
        spec = read_spec(manifest.get("spec"))
    except CodecError as error:
        raise InvalidSpec([FieldError(error.path, error.message)]) from error
    status = read_status(manifest.get("status"))
    job = ElasticJob(metadata=_metadata(manifest.get("metadata")), spec=spec, status=status)
    if faults := list(validation.validate(job.metadata.name, spec)):
        raise InvalidSpec(faults)
    return job


def _kind_errors(manifest: Mapping[str, Any]) -> Iterator[FieldError]:
    if manifest.get("apiVersion") != constants.API_VERSION:
        yield FieldError("apiVersion", f"is {manifest.get('apiVersion')!r}; it must be {constants.API_VERSION}")
    if manifest.get("kind") != constants.KIND:
        yield FieldError("kind", f"is {manifest.get('kind')!r}; it must be {constants.KIND}")
    for name in sorted(set(manifest) - {"apiVersion", "kind", "metadata", "spec", "status"}):
        belongs = name in {codec.json_name(f.name) for f in dataclasses.fields(JobSpec)}
        cure = "it belongs into spec" if belongs else "an ElasticJob has apiVersion, kind, metadata and spec"
        yield FieldError(str(name), f"unknown field; {cure}")
    if "spec" not in manifest:
        yield FieldError("spec", "is required")


def _metadata(value: Any) -> Metadata:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        raise InvalidSpec([FieldError("metadata.name", "is required")])
    return Metadata(
        name=value["name"],
        namespace=value.get("namespace") or "default",
        uid=value.get("uid") or "",
        generation=value.get("generation") or 1,
        labels=value.get("labels") or {},
        annotations=value.get("annotations") or {},
        deletion_timestamp=value.get("deletionTimestamp"),
        creation_timestamp=value.get("creationTimestamp"),
    )


def trainer_container(spec: JobSpec) -> Mapping[str, Any]:
    """Return the trainer container; the spec must be valid."""
    containers = spec.template["spec"]["containers"]
    found: Mapping[str, Any] = containers[validation.trainer_index(spec, containers) or 0]
    return found


def nproc_per_node(spec: JobSpec) -> int:
    """Return the workers per node: the number given, or the GPUs in the trainer's limits (MIG slices count), else 1."""
    if isinstance(spec.nproc_per_node, int):
        return spec.nproc_per_node
    limits = (trainer_container(spec).get("resources") or {}).get("limits") or {}
    gpus = sum(int(count) for name, count in limits.items() if validation.is_gpu(name))
    return gpus or 1


def status_to_dict(status: JobStatus) -> dict[str, Any]:
    """Return the status as JSON; it always has the counters, and no empty texts and lists."""
    full: dict[str, Any] = _without_empty_times(codec.write(status, keep_defaults=True))
    return {name: value for name, value in full.items() if value not in ("", [], {}, None)}


def _without_empty_times(value: Any) -> Any:
    """Return the value without empty date-times: the API server would reject the whole status for one."""
    if isinstance(value, list):
        return [_without_empty_times(item) for item in value]
    if isinstance(value, dict):
        filled = {name: item for name, item in value.items() if not (name.endswith(("Time", "time")) and item == "")}
        return {name: _without_empty_times(item) for name, item in filled.items()}
    return value
