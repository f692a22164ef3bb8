"""The configuration of the tests' kind cluster: that of hack/kind, with folders of this machine on its workers.

Each folder of the machine has the same path on a worker, and is read-only there. One folder can be written: all workers
have it at `SHARED`, as they would have a file system of the network.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.programs import ROOT

SHARED = Path("/var/lib/elasticjob-shared")
"""The path of the shared folder on each worker."""


def kind_config(folders: Sequence[Path], shared: Path) -> str:
    """Return it as YAML; `shared` is this machine's path of the folder that can be written."""
    config = yaml.safe_load((ROOT / "hack" / "kind" / "cluster.yaml").read_text())
    mounts: list[dict[str, Any]] = [
        *({"hostPath": str(path), "containerPath": str(path), "readOnly": True} for path in folders),
        {"hostPath": str(shared), "containerPath": str(SHARED)},
    ]
    for node in config["nodes"]:
        if node["role"] == "worker":
            node["extraMounts"] = mounts
    return yaml.safe_dump(config)
