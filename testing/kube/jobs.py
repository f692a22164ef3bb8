"""Jobs that tests run on a stack: workers that wait for a file and exit 0, and manifests of the examples."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from testing.kube.stack import KubeStack

_WAIT_FOR_FILE = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""

QUICK: Mapping[str, Any] = {
    "agent": {"mode": "Provided", "reportPeriodSeconds": 1},
    "scaling": {"scaleUpDelaySeconds": 1},
    "gracefulShutdown": {"seconds": 5},
    "nprocPerNode": 1,
}
"""Short delays, so that a small job changes quickly."""


def waiting_job(rig: KubeStack, name: str = "j", **spec: Any) -> dict[str, Any]:
    """Return a job whose workers exit 0 as soon as `rig.finish` exists."""
    command = ["python", "-S", "-c", _WAIT_FOR_FILE, str(rig.finish)]
    template = {"spec": {"containers": [{"name": "trainer", "image": "example/trainer:1", "command": command}]}}
    return {
        "apiVersion": "elasticjob.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {**QUICK, "template": template, **spec},
    }


def digits_job(folder: Path, *, replicas: int, epochs: int) -> dict[str, Any]:
    """Return the manifest of the digits example, smaller."""
    job: dict[str, Any] = copy.deepcopy(yaml.safe_load((folder / "job.yaml").read_text()))
    job["spec"] |= {"replicas": replicas, "nprocPerNode": 1}
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    command[command.index("--epochs") + 1] = str(epochs)
    return job
