"""Liveness over HTTP."""

import http.client

import pytest

from elasticjob_agent.net import health


def ask(port: int) -> int:
    connection = http.client.HTTPConnection("localhost", port, timeout=20)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def test_answer_is_200_while_alive_503_afterwards_and_none_after_the_stop() -> None:
    alive = [True]
    server = health.HealthCheckServer(lambda: alive[0], 0)
    server.start()
    server.start()
    assert ask(server.port) == 200
    alive[0] = False
    assert ask(server.port) == 503
    server.stop()
    server.stop()
    with pytest.raises(OSError, match="refused"):
        ask(server.port)


VARIABLE = "TORCHELASTIC_HEALTH_CHECK_PORT"


@pytest.mark.parametrize("text", ["", "http", "-1", "70000"])
def test_an_invalid_port_is_logged_and_ignored(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert health.from_environment(lambda: True, {VARIABLE: text}) is None
    assert "which is not a port" in caplog.text


def test_a_taken_port_is_logged_and_the_agent_continues(caplog: pytest.LogCaptureFixture) -> None:
    first = health.start_from_environment(lambda: True, {VARIABLE: "0"})
    assert first is not None
    try:
        assert health.start_from_environment(lambda: True, {VARIABLE: str(first.port)}) is None
        assert f"port {first.port} of {VARIABLE} cannot be used: Address already in use" in caplog.text
        assert ask(first.port) == 200
    finally:
        first.stop()


def test_the_port_of_the_environment_is_used() -> None:
    server = health.from_environment(lambda: True, {VARIABLE: "0"})
    assert server is not None
    assert server.port == 0
    assert health.from_environment(lambda: True, {}) is None
