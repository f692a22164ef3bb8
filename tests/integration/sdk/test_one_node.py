"""`launch_nodes` on this machine alone: no endpoint, its own etcd; and the ends of functions."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elasticjob.errors import CallFailed
from elasticjob.multinode.launcher import launch_nodes
from testing.servers.etcd_ports import etcd_addresses, etcds_below
from testing.waiting import eventually
from tests.integration.sdk import functions


def test_one_node_needs_no_endpoint() -> None:
    assert launch_nodes(functions.place, nprocs=2) == {0: (0, 2, 0), 1: (1, 2, 0)}


@pytest.mark.parametrize("endpoint", ["", "localhost:29400"])
def test_the_etcd_of_one_node_has_no_port(endpoint: str, tmp_path: Path) -> None:
    # A reader of this etcd could deliver a result, which is unpickled here.
    addresses = []
    others = etcds_below(os.getpid())  # the session's

    def look() -> None:
        try:
            eventually(lambda: list(tmp_path.glob("1.0.*")), within_s=60, what="the rank runs")
            addresses.append(etcd_addresses(os.getpid(), besides=others))
        finally:
            (tmp_path / "go").touch()

    with ThreadPoolExecutor() as pool:
        looking = pool.submit(look)
        launch_nodes(functions.waits_for_file, (tmp_path,), rdzv_endpoint=endpoint)
        looking.result()
    assert addresses == [[]]


def test_the_secret_of_a_call_is_in_the_tests_own_configuration(own_config: Path) -> None:
    launch_nodes(functions.place, rdzv_endpoint="localhost:29400")
    assert (own_config / "elasticjob" / "call-secret").exists()


def test_a_result_beyond_the_bound_is_a_failure_that_names_it() -> None:
    with pytest.raises(CallFailed, match=r"the result has 1,0.. bytes, of at most 1,000; give launch_nodes a higher"):
        launch_nodes(functions.big, (1000,), max_result_bytes=1000)


def test_a_value_that_cannot_be_pickled_is_reported_as_a_failure() -> None:
    with pytest.raises(CallFailed) as caught:
        launch_nodes(functions.cannot_be_sent)
    assert caught.value.failures[0].error == "the result cannot be sent: TypeError: cannot pickle '_thread.lock' object"


def test_exit_0_is_success_without_a_value() -> None:
    assert launch_nodes(functions.leaves, (0,)) == {0: None}


def test_another_exit_code_is_a_failure_with_it() -> None:
    with pytest.raises(CallFailed, match="exited with code 3") as caught:
        launch_nodes(functions.leaves, (3,))
    assert caught.value.failures[0].error == "the function exited with a code: SystemExit: 3"


def test_a_lambda_is_refused_before_anything_starts() -> None:
    with pytest.raises(Exception, match=r"(?i)pickle"):
        launch_nodes(lambda: None)


async def test_a_running_event_loop_is_refused_with_the_right_call() -> None:
    with pytest.raises(RuntimeError, match=r"await asyncio\.to_thread\(elasticjob\.launch_nodes"):
        launch_nodes(functions.place)
    assert await asyncio.to_thread(launch_nodes, functions.place) == {0: (0, 1, 0)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nnodes": "2"}, r"nnodes='2' needs rdzv_endpoint='HOST:PORT'"),
        ({"nnodes": "2:1"}, "nnodes='2:1' must be 'MIN' or 'MIN:MAX'"),
        ({"nprocs": 0}, "nprocs=0 must be at least 1"),
        ({"max_restarts": -1}, "max_restarts=-1 at least 0"),
        ({"rdzv_id": "a/b"}, "rdzv_id='a/b' must be a name without a slash"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launch_nodes(functions.place, **given)  # type: ignore[arg-type]
