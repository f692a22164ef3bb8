"""The kind cluster of the end-to-end tests, with folders of the machine on its workers."""

from pathlib import Path

import yaml

from e2e.kind_config import kind_config

SHIPPED = yaml.safe_load((Path(__file__).parents[3] / "hack" / "kind" / "cluster.yaml").read_text())


def test_each_worker_has_the_folders_at_the_same_paths_and_cannot_write_them() -> None:
    config = yaml.safe_load(kind_config([Path("/opt/torch"), Path("/opt/python")]))
    mounts = [{"hostPath": path, "containerPath": path, "readOnly": True} for path in ("/opt/torch", "/opt/python")]
    workers = [node for node in config["nodes"] if node["role"] == "worker"]
    assert [node["extraMounts"] for node in workers] == [mounts] * 3
    assert config["nodes"][0] == {"role": "control-plane"}


def test_without_folders_it_is_the_shipped_configuration() -> None:
    assert yaml.safe_load(kind_config([])) == SHIPPED
