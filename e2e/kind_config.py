"""The configuration of the tests' kind cluster: that of hack/kind, with folders of this machine on its workers."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from e2e.programs import ROOT


def kind_config(folders: Sequence[Path]) -> str:
    """Return it as YAML; each worker has these folders at the same paths, read-only."""
    config = yaml.safe_load((ROOT / "hack" / "kind" / "cluster.yaml").read_text())
    mounts = [{"hostPath": str(path), "containerPath": str(path), "readOnly": True} for path in folders]
    for node in config["nodes"]:
        if mounts and node["role"] == "worker":
            node["extraMounts"] = mounts
    return yaml.safe_dump(config)
