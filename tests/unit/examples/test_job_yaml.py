"""The example's manifest keeps the promises of its README."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from settings import read_settings

MANIFEST = Path(__file__).parents[3] / "examples" / "digits" / "job.yaml"


@pytest.fixture
def spec() -> dict[str, Any]:
    document = yaml.safe_load(MANIFEST.read_text())
    assert (document["apiVersion"], document["kind"]) == ("elasticjob.io/v1alpha1", "ElasticJob")
    found: dict[str, Any] = document["spec"]
    return found


def test_three_nodes_of_two_workers_may_be_two_to_four(spec: dict[str, Any]) -> None:
    fields = ("replicas", "minReplicas", "maxReplicas", "nprocPerNode", "maxRestarts")
    assert [spec[field] for field in fields] == [3, 2, 4, 2, 3]


def test_the_command_is_one_that_the_script_understands(spec: dict[str, Any]) -> None:
    python, script, *arguments = spec["template"]["spec"]["containers"][0]["command"]
    assert (python, (MANIFEST.parent / script).is_file()) == ("python", True)
    assert read_settings(arguments).epochs == 20


def test_checkpoints_go_to_a_volume_of_the_pod(spec: dict[str, Any]) -> None:
    pod = spec["template"]["spec"]
    (trainer,) = pod["containers"]
    assert {"name": "CHECKPOINT_DIR", "value": "/checkpoints"} in trainer["env"]
    assert trainer["volumeMounts"] == [{"name": "checkpoints", "mountPath": "/checkpoints"}]
    assert pod["volumes"] == [{"name": "checkpoints", "emptyDir": {}}]
