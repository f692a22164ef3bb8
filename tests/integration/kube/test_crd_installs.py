"""The CRD as a file and as a resource: both ways to apply it, its size, and its conditions."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.servers.apiserver import ApiServer, Programs, await_crd

pytestmark = pytest.mark.kube

CRD = Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml"
NAME = "crd/elasticjobs.elasticjob.io"


@pytest.fixture(scope="module")
def bare_server(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Return a server of this module alone, because the tests install and remove the CRD."""
    with ApiServer(programs, tmp_path_factory.mktemp("bare")) as running:
        yield running


def succeed(server: ApiServer, *arguments: str) -> str:
    done = server.kubectl(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("options", [pytest.param([], id="client-side"), pytest.param(["--server-side"], id="server")])
def test_installs_and_is_established_and_structural(bare_server: ApiServer, options: list[str]) -> None:
    succeed(bare_server, "apply", *options, "-f", str(CRD))
    await_crd(bare_server, NAME.removeprefix("crd/"))
    status = json.loads(succeed(bare_server, "get", NAME, "-o", "json"))["status"]
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    succeed(bare_server, "delete", NAME)
    assert conditions == {"Established": "True", "NamesAccepted": "True"}


def test_applying_it_again_changes_nothing(bare_server: ApiServer) -> None:
    succeed(bare_server, "apply", "-f", str(CRD))
    again = succeed(bare_server, "apply", "-f", str(CRD))
    succeed(bare_server, "delete", NAME)
    assert again.strip().endswith("unchanged")


def test_it_is_small_enough_for_the_annotation_of_client_side_apply() -> None:
    assert CRD.stat().st_size < 256 * 1024


def test_the_error_for_a_user_without_rights_names_the_missing_right(bare_server: ApiServer) -> None:
    done = bare_server.kubectl("get", "pods", user="nobody")
    assert 'User "nobody" cannot list resource "pods"' in done.stderr


def test_a_killed_api_server_restarts_at_its_port_with_its_data(bare_server: ApiServer) -> None:
    succeed(bare_server, "create", "configmap", "kept")
    url = bare_server.url
    bare_server.kill()
    assert bare_server.kubectl("get", "configmap", "kept").returncode != 0
    bare_server.start()
    assert bare_server.url == url
    succeed(bare_server, "get", "configmap", "kept")
