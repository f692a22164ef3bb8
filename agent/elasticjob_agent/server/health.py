"""Liveness of an agent over HTTP: 200 while its loop turns, 503 when it has not for too long.

One thread that waits for requests; nothing is served but that one answer, on every path.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from elasticjob_api.constants import ENV_HEALTH_CHECK_PORT

log = logging.getLogger(__name__)


class HealthCheckServer:
    """Answers whether `is_alive` says so."""

    def __init__(self, is_alive: Callable[[], bool], port: int) -> None:
        """`port` 0: any; see `port` after the start."""
        self._is_alive = is_alive
        self.port = port
        self._server: HTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to answer; idempotent. Raises OSError when the port is taken."""
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
        """Answer no more; idempotent."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None


def start_from_environment(is_alive: Callable[[], bool], environment: Mapping[str, str]) -> HealthCheckServer | None:
    """Start a server on the port of TORCHELASTIC_HEALTH_CHECK_PORT.

    What is no port, or is taken, is logged and ignored: the variable is often one for all agents of a host.
    """
    server = from_environment(is_alive, environment)
    try:
        if server is not None:
            server.start()
    except OSError as error:
        log.warning(
            "no health checks are answered by this agent: %s names port %d, which cannot be used: %s",
            ENV_HEALTH_CHECK_PORT,
            server.port if server else 0,
            error.strerror,
        )
        return None
    return server


def from_environment(is_alive: Callable[[], bool], environment: Mapping[str, str]) -> HealthCheckServer | None:
    """A server on the port of TORCHELASTIC_HEALTH_CHECK_PORT; what is no port is logged and ignored."""
    text = environment.get(ENV_HEALTH_CHECK_PORT)
    if text is None:
        return None
    if not text.isdecimal() or not 0 <= int(text) < 1 << 16:
        log.warning("%s is %r, which is not a port; no health checks are answered", ENV_HEALTH_CHECK_PORT, text)
        return None
    return HealthCheckServer(is_alive, int(text))
