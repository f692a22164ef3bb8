"""The part of a job that is kept in memory once it has ended: its status, and the fields that decide its deletion.

Thousands of ended jobs may exist for years, and none is started again. So they use none of the memory for running jobs.
The part is also enough to suspend a job that does not fit into the memory.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from elasticjob_api import codec, validation
from elasticjob_api.job_size import size_of
from elasticjob_api.spec import JobSpec
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object

_FIELDS = frozenset({codec.json_name(field.name) for field in fields(JobSpec)}) - {"template"}
_MAX_FIELD_BYTES = 2 << 10
"""Most bytes of memory of one field."""
_MAX_LIMITS = 8


def minimal_job(job: Object) -> Object:
    """Return `job` with the size of its template only, and without large fields."""
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return job
    small = {
        name: value for name, value in spec.items() if name in _FIELDS and size_of(value).memory <= _MAX_FIELD_BYTES
    }
    trainer = _trainer(spec)
    template = {"spec": {"containers": [_minimal_trainer(trainer)]}} if trainer else {}
    metadata = {name: value for name, value in objects.metadata(job).items() if _is_kept(name, value)}
    return {**job, "metadata": metadata, "spec": {**small, "template": template}}


def _is_kept(name: str, value: Any) -> bool:
    return name != "annotations" or size_of(value).memory <= _MAX_FIELD_BYTES


def _trainer(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    template = spec.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    given = pod.get("containers") if isinstance(pod, dict) else None
    found = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    wanted = spec.get("trainerContainer")
    return next((each for each in found if wanted is None or each.get("name") == wanted), {})


def _minimal_trainer(trainer: Mapping[str, Any]) -> Object:
    """Return the name and the GPUs; the command was checked when the job was started."""
    resources = trainer.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    given = limits.items() if isinstance(limits, dict) else ()
    gpus = [
        (name, count) for name, count in given if validation.is_gpu(name) and size_of(count).memory <= _MAX_FIELD_BYTES
    ]
    command = ["-"] if trainer.get("command") else []
    minimal = {"name": trainer.get("name"), "command": command, "resources": {"limits": dict(gpus[:_MAX_LIMITS])}}
    return {name: value for name, value in minimal.items() if size_of(value).memory <= _MAX_FIELD_BYTES}
