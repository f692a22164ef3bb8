"""Mistakes that only a cluster shows, each made with the real program on a real API server."""

import json
from pathlib import Path

import pytest

from testing.kube.namespace import Namespace
from testing.servers.apiserver import ApiServer
from tests.integration.cli.mistakes import GOOD, ON_A_CLUSTER, Mistake
from tests.integration.cli.on_a_cluster import Command
from tests.integration.cli.test_mistakes import check, read_in_order

pytestmark = pytest.mark.kube


@pytest.mark.parametrize("mistake", ON_A_CLUSTER, ids=str)
def test_a_mistake_is_reported_with_its_cure(namespace: Namespace, command: Command, mistake: Mistake) -> None:
    namespace.apply({**GOOD, "metadata": {"name": "digits"}})
    check(command(*mistake.typed, code=None, **mistake.environ), mistake)


@pytest.fixture
def unprivileged(namespace: Namespace, tmp_path: Path) -> Command:
    """Return the command of a user without permissions."""
    return Command(namespace.server.kubeconfig("nobody", namespace=namespace.name), tmp_path)


def test_a_user_without_permissions_sees_which_are_missing_and_who_can_grant_them(unprivileged: Command) -> None:
    ended = unprivileged("get", code=1)
    read_in_order(
        ended.err, ("cannot list jobs: ", 'cannot list resource "elasticjobs"', "ask an administrator of the cluster")
    )


def test_a_manifest_without_an_image_is_refused_with_the_field(namespace: Namespace, command: Command) -> None:
    body = json.loads(json.dumps(GOOD))
    del body["spec"]["template"]["spec"]["containers"][0]["image"]
    (command.folder / "job.yaml").write_text(json.dumps(body))
    refused = namespace.server.kubectl("apply", "-f", str(command.folder / "job.yaml"), namespace=namespace.name)
    assert refused.returncode != 0
    assert "image" in refused.stderr


@pytest.fixture
def bare(namespace: Namespace, tmp_path: Path) -> Command:
    """Return the command for a server without ElasticJobs: its path leads to no API."""
    config = json.loads(namespace.server.kubeconfig(namespace=namespace.name).read_text())
    config["clusters"][0]["cluster"]["server"] += "/nowhere"
    path = tmp_path / "bare.kubeconfig"
    path.write_text(json.dumps(config))
    return Command(path, tmp_path)


def test_a_missing_crd_is_reported_with_the_command_that_installs_it(bare: Command) -> None:
    ended = bare("get", code=1)
    read_in_order(ended.err, ("the cluster does not know elasticjobs.elasticjob.io", "crds/elasticjob.yaml"))


def test_a_cluster_that_does_not_answer_is_named(crd: ApiServer, tmp_path: Path) -> None:
    config = json.loads(crd.kubeconfig().read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "dead.kubeconfig"
    path.write_text(json.dumps(config))
    ended = Command(path, tmp_path)("get", code=124)
    read_in_order(ended.err, ("https://127.0.0.1:1 did not answer", "check that it runs and is reachable"))
    assert ended.err.count("\n") == 1
