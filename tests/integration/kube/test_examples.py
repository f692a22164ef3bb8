"""A real API server and the project's own parser accept every manifest of the examples."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from elasticjob_api.job import parse_job
from testing.kube.namespace import Namespace

pytestmark = pytest.mark.kube

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "examples").rglob("*.yaml"))
OTHERS = {"PodGroup"}
"""Kinds of other projects, whose CRDs are not installed here."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_api_server_accepts_it(namespace: Namespace, path: Path) -> None:
    known = [document for document in documents(path) if document["kind"] not in OTHERS]
    assert known
    for document in known:
        namespace.kubectl("apply", "--dry-run=server", "-f", "-", stdin=document)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_parser_accepts_its_job(path: Path) -> None:
    jobs = [document for document in documents(path) if document["kind"] == "ElasticJob"]
    assert [parse_job(job).metadata.name for job in jobs]


def test_there_are_examples_for_autoscaling_queues_gangs_and_spot_nodes() -> None:
    assert {"hpa.yaml", "kueue.yaml", "volcano.yaml", "spot.yaml"} <= {path.name for path in FILES}
