"""The quota of a job in etcd: it depends on the job's size, has a minimum, and exceeds what agents can write."""

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


def test_the_minimum_quota_holds_the_old_data_of_a_larger_job() -> None:
    assert quota(spec(replicas=2, nproc_per_node=4), nodes=2).stored == MIN_BYTES


@pytest.mark.parametrize(
    ("nodes", "ranks", "given"),
    [
        (500, 8, {"replicas": 500, "nproc_per_node": 8}),
        (700, 8, {"replicas": 10, "max_replicas": 1000, "nproc_per_node": 8}),
        (1000, 4, {"replicas": 1000, "template": template(resources={"limits": {"nvidia.com/gpu": 4}})}),
    ],
)
def test_the_quota_of_a_large_job_is_twice_the_most_that_its_agents_write(
    nodes: int, ranks: int, given: dict[str, object]
) -> None:
    bound = 64 * KIB + 32 * KIB * nodes + 80 * KIB * nodes * ranks
    assert 2 * bound < quota(spec(**given), nodes=nodes).stored < 2.1 * bound


def test_the_quota_for_written_bytes_is_a_multiple_of_that_for_stored_bytes() -> None:
    made = quota(spec(replicas=100), nodes=100)
    assert made.written == WRITTEN * made.stored


def test_the_claims_of_a_job_do_not_raise_its_quota() -> None:
    claims = spec(replicas=1, min_replicas=1, max_replicas=10_000, nproc_per_node=8)
    assert quota(claims, nodes=1) == quota(spec(replicas=1, nproc_per_node=8), nodes=1)
    assert quota(claims, nodes=0) == quota(claims, nodes=1)


def test_no_job_may_use_all_of_etcd() -> None:
    assert allowed_bytes(10_000, 8).stored == MAX_BYTES


@pytest.mark.parametrize(("spec_fields", "nproc"), [({"nprocPerNode": 4}, 4), ({"nprocPerNode": "auto"}, 8), ({}, 8)])
def test_the_quota_of_an_unparsed_spec_depends_on_its_pods(spec_fields: dict[str, object], nproc: int) -> None:
    assert unread_quota(spec_fields, nodes=50) == allowed_bytes(50, nproc)


def test_the_minimum_memory_holds_the_old_data_of_a_larger_job() -> None:
    assert allowed_bytes(1, 1).memory == MIN_MEMORY
    assert allowed_bytes(2000, 8).memory == 2 * allowed_bytes(2000, 8).bound


def test_the_records_of_a_node_fit_into_its_part_of_the_quota() -> None:
    node = memory_of("node", 2048) + memory_of("report", report_bytes(8)) + memory_of("gone", 1024)
    failures = 16 * memory_of("failure", REDUCED)
    assert allowed_bytes(1001, 8).bound - allowed_bytes(1000, 8).bound > node + failures


def test_a_key_takes_memory_however_short_it_is() -> None:
    assert memory_of(None, 0) == memory_of("gone", 0) == KIB
