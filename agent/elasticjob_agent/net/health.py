"""Liveness of an agent over HTTP: 200 while its loop runs, 503 after too long without a pass.

One thread waits for requests; every path gets this same answer.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from elasticjob_api.constants import ENV_HEALTH_CHECK_PORT

log = logging.getLogger(__name__)


class HealthCheckServer:
    """Serves the value of `is_alive`."""

    def __init__(self, is_alive: Callable[[], bool], port: int) -> None:
        """Take the port; 0 for any, which `port` shows after the start."""
        self._is_alive = is_alive
        self.port = port
        self._server: HTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to answer; idempotent. Raise OSError if the port is taken."""
        if self._server is not None:
            return
        is_alive = self._is_alive

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                alive = is_alive()
                self.send_response(HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE)
                self.end_headers()
                self.wfile.write(b"alive\n" if alive else b"the agent's loop hangs\n")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                log.debug(format, *args)

        self._server = HTTPServer(("", self.port), Answer)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="health check", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop to answer; idempotent."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None


def start_from_environment(is_alive: Callable[[], bool], environment: Mapping[str, str]) -> HealthCheckServer | None:
    """Start a server on the port of TORCHELASTIC_HEALTH_CHECK_PORT.

    An invalid or taken port is logged and ignored: all agents of a host often have the same variable.
    """
    server = from_environment(is_alive, environment)
    try:
        if server is not None:
            server.start()
    except OSError as error:
        log.warning(
            "this agent answers no health checks: port %d of %s cannot be used: %s",
            server.port if server else 0,
            ENV_HEALTH_CHECK_PORT,
            error.strerror,
        )
        return None
    return server


def from_environment(is_alive: Callable[[], bool], environment: Mapping[str, str]) -> HealthCheckServer | None:
    """Return a server for the port of TORCHELASTIC_HEALTH_CHECK_PORT; an invalid port is logged and ignored."""
    text = environment.get(ENV_HEALTH_CHECK_PORT)
    if text is None:
        return None
    if not text.isdecimal() or not 0 <= int(text) < 1 << 16:
        log.warning("%s is %r, which is not a port; this agent answers no health checks", ENV_HEALTH_CHECK_PORT, text)
        return None
    return HealthCheckServer(is_alive, int(text))
