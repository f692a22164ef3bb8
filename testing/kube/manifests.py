"""Manifests for tests: the smallest job a user would write, one with every field, and changes of them."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from elasticjob_api import constants

MINIMAL: Mapping[str, Any] = {
    "apiVersion": "elasticjob.io/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "digits"},
    "spec": {
        "template": {
            "spec": {"containers": [{"name": "trainer", "image": "training:1", "command": ["python", "train.py"]}]}
        }
    },
}
"""A static job of one node."""

ELASTIC: Mapping[str, Any] = {
    **MINIMAL,
    "spec": {
        "replicas": 4,
        "minReplicas": 2,
        "maxReplicas": 8,
        "nprocPerNode": 2,
        "maxRestarts": 3,
        "template": MINIMAL["spec"]["template"],
    },
}
"""Two to eight nodes; four are wanted."""

REMOVED = object()
"""The value for a field that is removed."""


def full() -> dict[str, Any]:
    """Return the job of full-job.yaml, which sets every field."""
    job: dict[str, Any] = yaml.safe_load((Path(__file__).with_name("full-job.yaml")).read_text())
    return job


def changed(job: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `job` with fields at dotted paths (`spec.template.spec.containers.0.image`) set or REMOVED."""
    result: dict[str, Any] = copy.deepcopy(dict(job))
    for path, value in changes.items():
        *parents, last = path.split(".")
        target: Any = result
        for name in parents:
            target = target[int(name)] if isinstance(target, list) else target.setdefault(name, {})
        if value is REMOVED:
            del target[last]
        else:
            target[int(last) if isinstance(target, list) else last] = value
    return result


def pod_of_job(namespace: str, name: str, job_uid: str = "u") -> dict[str, Any]:
    """Return a pod with the labels of a job's pod."""
    meta = {"name": name, "namespace": namespace, "labels": {constants.LABEL_JOB_UID: job_uid}}
    spec = {"containers": [{"name": "trainer", "image": "none"}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
