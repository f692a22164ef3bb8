"""How large the spec of a job may be: a bound that real jobs never meet, and that bounds what it takes of a process."""

import gc
import json
import tracemalloc
from typing import Any

import pytest

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import parse_job
from elasticjob_api.job_size import JOB_BYTES, JOB_VALUES, size_of
from testing.kube.manifests import MINIMAL, full

MIB = 1 << 20


def test_a_job_with_every_field_is_far_below_the_bound() -> None:
    size = size_of(full()["spec"])
    assert size.fault == ""
    assert 10 * size.values < JOB_VALUES
    assert 10 * size.bytes < JOB_BYTES


@pytest.mark.parametrize(
    ("hole", "fault"),
    [
        ([{"a": {}}] * 125_000, "more than 10000 fields and items"),
        ({str(number): 0 for number in range(10_001)}, "more than 10000 fields and items"),
        ("x" * (256 << 10), "more than 256 KiB of text"),
        ({"x" * (256 << 10): 0}, "more than 256 KiB of text"),
        ("é" * (128 << 10), "more than 256 KiB of text"),
    ],
)
def test_what_is_too_large_is_refused_with_field_size_and_cure(hole: Any, fault: str) -> None:
    manifest = {**MINIMAL, "spec": {**MINIMAL["spec"], "template": {**MINIMAL["spec"]["template"], "hole": hole}}}
    with pytest.raises(InvalidSpec, match=f"spec: has {fault}; keep scripts and data in a ConfigMap or in the image"):
        parse_job(manifest)


WIDE = [
    {f"name-{number}": {} for number in range(9_000)},
    [[number * 1.5] for number in range(4_000)],
    [{"a": "é" * 12} for _ in range(4_000)],
    ["😀" * 2_000] * 25,
    "x" * (255 << 10),
]


@pytest.mark.parametrize("value", WIDE, ids=str)
def test_a_spec_within_the_bound_takes_no_more_memory_than_is_counted(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    gc.collect()
    tracemalloc.start()
    kept = json.loads(text)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    counted = size_of(kept)
    assert counted.fault == ""
    assert 0.9 * taken < counted.memory < 2 * taken
    assert counted.memory < 4 * MIB
