"""`import elasticjob` in its own process: the modules that it loads, and the names that it has."""

import json
import subprocess
import sys

import pytest

import elasticjob

HEAVY = ["kubernetes", "grpc", "google.protobuf", "yaml", "psutil", "urllib3", "asyncio", "elasticjob_agent"]


def loaded_by(statements: str) -> list[str]:
    """Return the heavy modules that a new Python has loaded after these statements."""
    program = f"{statements}\nimport json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    found: list[str] = json.loads(done.stdout)
    return found


def test_the_import_loads_nothing_heavy() -> None:
    assert loaded_by("import elasticjob") == []


def test_a_job_that_is_only_a_manifest_needs_no_cluster_library() -> None:
    assert loaded_by("from elasticjob import ElasticJob") == []


def test_the_launchers_need_neither_a_cluster_library_nor_grpc() -> None:
    found = loaded_by("from elasticjob import launch, spawn, start_processes, record")
    assert not {"kubernetes", "grpc", "yaml"} & set(found)


@pytest.mark.parametrize("name", elasticjob.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(elasticjob, name) is not None
    assert name in dir(elasticjob)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'ElasticJobs'; it has .*ElasticJob"):
        _ = elasticjob.ElasticJobs
