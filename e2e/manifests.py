"""The digits job as the tests apply it: the example's own manifest, as long as a test needs it."""

from typing import Any

import yaml

from e2e.programs import ROOT

PLAIN_IMAGE = "elasticjob/digits-plain:local"
"""The example in an image without any file of this project."""
ENDLESS = 4000
"""Epochs of a job that a test ends by deleting it."""


def digits(*, epochs: int, step_seconds: float = 0.05, **spec: Any) -> dict[str, Any]:
    """Return the example's manifest with another length, and other fields of the spec; 15 steps are an epoch."""
    manifest: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "digits" / "job.yaml").read_text())
    # Tests find a worker by /proc/PID/environ, where a worker that was started warm shows that of another one.
    del manifest["spec"]["agent"]["warmStart"]
    manifest["spec"] |= spec
    trainer(manifest)["command"] = ["python", "train.py", "--epochs", str(epochs), "--step-seconds", str(step_seconds)]
    return manifest


def injected(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the same job in an image without the agent: the operator injects it."""
    manifest["spec"]["agent"] = {"mode": "Inject"}
    trainer(manifest)["image"] = PLAIN_IMAGE
    return manifest


def spread(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the same job with its pods on as many nodes as possible."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"elasticjob.io/job-name": manifest["metadata"]["name"]}},
    }
    manifest["spec"]["template"]["spec"]["topologySpreadConstraints"] = [constraint]
    return manifest


def patient(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the same job, which waits long for an expected pod: a loss and its replacement are one round."""
    manifest["spec"]["rendezvous"] = {"lastCallTimeoutSeconds": 90}
    return manifest


def hurried(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the same job, which waits for no pod when it has enough: a loss is one round, its replacement another."""
    manifest["spec"]["rendezvous"] = {"lastCallTimeoutSeconds": 0}
    return manifest


def guaranteed(manifest: dict[str, Any], memory: str) -> dict[str, Any]:
    """Return the same job with exactly this memory: the kernel's OOM killer compares its processes by size alone."""
    amounts = {"memory": memory, "cpu": "500m"}
    trainer(manifest)["resources"] = {"limits": amounts, "requests": amounts}
    return manifest


def on(manifest: dict[str, Any], node: str) -> dict[str, Any]:
    """Return the same job with its pods on this node alone."""
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return manifest


def apart(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the same job with no two pods on one node."""
    mine = {"matchLabels": {"elasticjob.io/job-name": manifest["metadata"]["name"]}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": mine}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    manifest["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": rule}
    return manifest


def restricted(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the same job with the fields that the restricted Pod Security standard requires."""
    manifest["spec"]["template"]["spec"]["securityContext"] = {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    trainer(manifest)["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return manifest


def trainer(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return its one container."""
    container: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return container
