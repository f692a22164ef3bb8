"""The kind cluster of the end-to-end tests, with folders of the machine on its workers."""

from pathlib import Path

import yaml

from e2e.kind_config import SHARED, kind_config

SHIPPED = yaml.safe_load((Path(__file__).parents[3] / "hack" / "kind" / "cluster.yaml").read_text())
SHARED_BY_ALL = {"hostPath": "/opt/shared", "containerPath": str(SHARED)}


def test_each_worker_has_the_folders_at_the_same_paths_and_cannot_write_them() -> None:
    config = yaml.safe_load(kind_config([Path("/opt/torch"), Path("/opt/python")], Path("/opt/shared")))
    folders = [{"hostPath": path, "containerPath": path, "readOnly": True} for path in ("/opt/torch", "/opt/python")]
    mounts = [*folders, SHARED_BY_ALL]
    workers = [node for node in config["nodes"] if node["role"] == "worker"]
    assert [node["extraMounts"] for node in workers] == [mounts] * 3
    assert config["nodes"][0] == {"role": "control-plane"}


def test_without_folders_the_workers_share_one_and_the_rest_is_as_shipped() -> None:
    config = yaml.safe_load(kind_config([], Path("/opt/shared")))
    workers = [node for node in config["nodes"] if node["role"] == "worker"]
    assert [node.pop("extraMounts") for node in workers] == [[SHARED_BY_ALL]] * 3
    assert config == SHIPPED
