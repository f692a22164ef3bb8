"""docs/sdk.md: its programs run as they are written, and so does its command."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from elasticjob import ElasticJob
from elasticjob_agent.launch import free_port
from testing.kube.manifests import ELASTIC
from testing.waiting import eventually, scaled
from tests.integration.sdk.conftest import Stage
from tests.integration.sdk.kubelet import Kubelet

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "sdk.md").read_text()
CREATE, LIST, NODES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
[COMMAND] = re.findall(r"^    (python -m .*)$", PAGE, re.MULTILINE)
LIMIT_S = 100.0


def run(folder: Path, program: str, **env: str) -> str:
    """Return the standard output of a program that must succeed."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=scaled(LIMIT_S), check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.kube
def test_a_job_is_created_followed_scaled_and_awaited(stage: Stage, kubelet: Kubelet, tmp_path: Path) -> None:
    def operate() -> None:
        eventually(lambda: ElasticJob.list(cluster=stage.cluster), within_s=LIMIT_S, what="the job")
        job = ElasticJob.get("digits", cluster=stage.cluster)
        kubelet.start_pod("a")
        kubelet.write("a", "step 1")
        stage.runs(job, "a")
        eventually(lambda: job.refresh().spec.replicas == 8, within_s=LIMIT_S, what="scaled")
        stage.runs(job, "a", phase="Succeeded")
        kubelet.finish("a")

    (tmp_path / "job.yaml").write_text(yaml.safe_dump(dict(ELASTIC)))
    operator = threading.Thread(target=operate)
    operator.start()
    config = stage.namespace.server.kubeconfig(namespace=stage.namespace.name)
    output = run(tmp_path, CREATE, KUBECONFIG=str(config))
    operator.join()
    assert output == "2026-01-01T00:00:00.001000000Z step 1\n"


@pytest.mark.kube
def test_jobs_of_another_context_and_namespace_are_listed(stage: Stage, job: ElasticJob, tmp_path: Path) -> None:
    config = yaml.safe_load(stage.namespace.server.kubeconfig(namespace="default").read_text())
    config["contexts"][0]["name"] = "production"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    stage.namespace.kubectl("label", "ejob", job.name, "team=vision")
    stage.set_status(job, phase="Running", readyReplicas=3)
    program = LIST.replace('"vision")', f'"{stage.namespace.name}")')
    assert run(tmp_path, program, KUBECONFIG=str(tmp_path / "config")) == "digits Running 3 \n"


@pytest.mark.etcd
def test_a_function_runs_on_two_nodes(tmp_path: Path) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    words = COMMAND.replace("head:29400", endpoint).split()
    other = subprocess.Popen([sys.executable, *words[1:]], stderr=subprocess.DEVNULL)
    try:
        program = NODES.replace("head:29400", endpoint).replace('"1:4"', '"2"')
        assert run(tmp_path, program, **os.environ) == "rank 0 of 4 with 0.1\n"
        assert other.wait(LIMIT_S) == 0
    finally:
        other.kill()
        other.wait()
