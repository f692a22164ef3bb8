"""Responses to probes and to Prometheus, over a real socket."""

import json
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from elasticjob_operator.errors import OperatorError
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.probes import MAX_SILENCE_S, ProbeServer, ProbeSources
from testing.network.ports import unused_port


class Operator:
    """The state of an operator, set by the test."""

    running = True
    ready = True
    leads = True
    ages: Mapping[Resource, float] = {Resource.POD: 1.0}

    def vitals(self) -> ProbeSources:
        return ProbeSources(
            running=lambda: self.running,
            ready=lambda: self.ready,
            leads=lambda: self.leads,
            ages=lambda: self.ages,
            metrics=lambda: b"figures 1\n",
            metrics_type="text/plain",
        )


async def asked(operator: Operator, path: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{unused_port()}"
    async with (
        ProbeServer(f"{url}/healthz", operator.vitals()),
        aiohttp.ClientSession() as session,
        session.get(url + path) as answer,
    ):
        text = await answer.text()
        return answer.status, json.loads(text) if text.startswith("{") else text


async def test_a_working_operator_is_alive_ready_and_has_metrics() -> None:
    assert await asked(Operator(), "/healthz") == (200, {"operator": "running"})
    assert await asked(Operator(), "/readyz") == (200, {"ready": True, "role": "leader"})
    assert await asked(Operator(), "/metrics") == (200, "figures 1\n")


async def test_a_standby_is_ready_too_and_reports_its_role() -> None:
    operator = Operator()
    operator.leads = False
    assert await asked(operator, "/readyz") == (200, {"ready": True, "role": "standby"})
    assert (await asked(operator, "/healthz"))[0] == 200


async def test_an_operator_whose_task_has_ended_is_not_alive() -> None:
    operator = Operator()
    operator.running = False
    assert await asked(operator, "/healthz") == (503, {"operator": "its task has ended"})


async def test_an_operator_with_a_stale_watch_is_not_alive() -> None:
    operator = Operator()
    operator.ages = {Resource.JOB: 1.0, Resource.POD: MAX_SILENCE_S + 1}
    assert await asked(operator, "/healthz") == (503, {"operator": "nothing was received from pods for 1800 s"})


async def test_an_operator_that_has_not_listed_everything_is_alive_and_not_ready() -> None:
    operator = Operator()
    operator.ready = operator.leads = False
    assert await asked(operator, "/readyz") == (503, {"ready": False, "role": "standby"})
    assert (await asked(operator, "/healthz"))[0] == 200


@pytest.mark.parametrize("url", ["8080", "http://:8080/healthz", "https://h:1/x", "http://h/healthz"])
def test_an_invalid_address_is_an_error_that_names_the_format(url: str) -> None:
    with pytest.raises(OperatorError, match="it must be http://HOST:PORT/PATH"):
        ProbeServer(url, Operator().vitals())


async def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OperatorError, match=f"cannot answer probes on 127.0.0.1:{port}"):
            await ProbeServer(f"http://127.0.0.1:{port}/healthz", Operator().vitals()).__aenter__()
