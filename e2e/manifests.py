"""The digits job as the tests apply it: the example's own manifest, made as long as a test needs it."""

from typing import Any

import yaml

from e2e.programs import ROOT

STEPS_PER_EPOCH = 15


def digits(*, epochs: int, step_seconds: float = 0.05, **spec: Any) -> dict[str, Any]:
    """The example's manifest with another length, and other fields of the spec; 15 steps are an epoch."""
    manifest: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "digits" / "job.yaml").read_text())
    manifest["spec"] |= spec
    trainer(manifest)["command"] = ["python", "train.py", "--epochs", str(epochs), "--step-seconds", str(step_seconds)]
    return manifest


def trainer(manifest: dict[str, Any]) -> dict[str, Any]:
    """Its one container."""
    container: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return container
