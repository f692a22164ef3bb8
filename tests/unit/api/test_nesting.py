"""How deep values are nested, and that what an API server stores can be read."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import parse_stored_job
from elasticjob_api.nesting import JOB_LEVELS, STORED_LEVELS, cut, is_deeper, read_json

SMALL_STACK = 4096
"""KiB; half of what a process has as a rule."""
READ = """
import json
from elasticjob_api.nesting import allow_stored_levels
allow_stored_levels()
for begin, end in ("[", "]"), ('{"a":', "}"):
    text = begin * 10_000 + "1" + end * 10_000
    assert json.loads(text) == json.loads(text)
"""


def nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value, "b": 1}
    return value


@pytest.mark.parametrize("levels", [0, 1, 2, 5, 10_000])
def test_a_value_is_as_deep_as_it_has_lists_and_objects_in_each_other(levels: int) -> None:
    assert not is_deeper(nested(levels), levels)
    assert levels == 0 or is_deeper(nested(levels), levels - 1)


def test_empty_ones_count_too() -> None:
    assert is_deeper([[[]]], 2)
    assert not is_deeper([[[]]], 3)


def test_a_job_that_is_nested_too_deeply_is_refused() -> None:
    pod = {"containers": [{"name": "a", "image": "a", "command": ["a"]}], "hole": nested(JOB_LEVELS)}
    manifest = {"apiVersion": "elasticjob.io/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "j"}}
    with pytest.raises(InvalidSpec, match="spec: is nested more than 100 levels deep; make it flatter"):
        parse_stored_job({**manifest, "spec": {"template": {"spec": pod}}})


def test_all_levels_that_an_api_server_stores_are_read_with_half_of_a_usual_stack() -> None:
    assert STORED_LEVELS > 10_000
    line = f'ulimit -s {SMALL_STACK} && exec "$0" -c "$1"'
    done = subprocess.run(["bash", "-c", line, sys.executable, READ], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def test_an_answer_of_an_api_server_is_read_however_deep_it_is_and_nothing_else() -> None:
    before = sys.getrecursionlimit()
    assert is_deeper(read_json(b"[" * 10_000 + b"]" * 10_000), 9_000)
    assert sys.getrecursionlimit() == before
    with pytest.raises(ValueError, match="Expecting value"):
        read_json(b"[" * 10_000)


def test_a_thread_whose_stack_may_be_small_reads_no_more_than_usual() -> None:
    with ThreadPoolExecutor() as threads, pytest.raises(RecursionError):
        threads.submit(read_json, b"[" * 10_000 + b"]" * 10_000).result()


def test_what_is_too_deep_is_cut_and_the_rest_stays() -> None:
    assert cut({"a": [1, {"b": [2]}, []], "c": "d"}, 2) == {"a": [1, "...", "..."], "c": "d"}
    assert not is_deeper(cut(nested(10_000), 50), 50)
