"""How much of etcd a job may take: by its size, never little, and always more than its agents can write."""

import pytest

from elasticjob_operator.policy.etcd.quota import (
    KIB,
    MAX_BYTES,
    MIN_BYTES,
    MIN_MEMORY,
    REDUCED,
    WRITTEN,
    allowed_bytes,
    memory_of,
    quota,
    report_bytes,
    unread_quota,
)
from testing.builders import spec, template


def test_a_small_job_may_have_what_a_larger_one_could_have_left() -> None:
    assert quota(spec(replicas=2, nproc_per_node=4), nodes=2).stored == MIN_BYTES


@pytest.mark.parametrize(
    ("nodes", "ranks", "given"),
    [
        (500, 8, {"replicas": 500, "nproc_per_node": 8}),
        (700, 8, {"replicas": 10, "max_replicas": 1000, "nproc_per_node": 8}),
        (1000, 4, {"replicas": 1000, "template": template(resources={"limits": {"nvidia.com/gpu": 4}})}),
    ],
)
def test_a_large_job_may_have_twice_of_what_its_agents_write_at_most(
    nodes: int, ranks: int, given: dict[str, object]
) -> None:
    bound = 64 * KIB + 32 * KIB * nodes + 80 * KIB * nodes * ranks
    assert 2 * bound < quota(spec(**given), nodes=nodes).stored < 2.1 * bound


def test_what_is_written_and_what_is_held_go_together() -> None:
    made = quota(spec(replicas=100), nodes=100)
    assert made.written == WRITTEN * made.stored


def test_what_a_job_claims_allows_nothing() -> None:
    claims = spec(replicas=1, min_replicas=1, max_replicas=10_000, nproc_per_node=8)
    assert quota(claims, nodes=1) == quota(spec(replicas=1, nproc_per_node=8), nodes=1)
    assert quota(claims, nodes=0) == quota(claims, nodes=1)


def test_no_job_may_have_all_of_etcd() -> None:
    assert allowed_bytes(10_000, 8).stored == MAX_BYTES


@pytest.mark.parametrize(("said", "nproc"), [({"nprocPerNode": 4}, 4), ({"nprocPerNode": "auto"}, 8), ({}, 8)])
def test_a_spec_that_was_not_read_yet_allows_what_its_pods_do(said: dict[str, object], nproc: int) -> None:
    assert unread_quota(said, nodes=50) == allowed_bytes(50, nproc)


def test_a_small_job_may_have_the_memory_that_a_larger_one_could_have_left() -> None:
    assert allowed_bytes(1, 1).memory == MIN_MEMORY
    assert allowed_bytes(2000, 8).memory == 2 * allowed_bytes(2000, 8).bound


def test_a_node_s_records_fit_in_what_it_may_have() -> None:
    node = memory_of("node", 2048) + memory_of("report", report_bytes(8)) + memory_of("gone", 1024)
    failures = 16 * memory_of("failure", REDUCED)
    assert allowed_bytes(1001, 8).bound - allowed_bytes(1000, 8).bound > node + failures


def test_a_key_takes_memory_however_short_it_is() -> None:
    assert memory_of(None, 0) == memory_of("gone", 0) == KIB
