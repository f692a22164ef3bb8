"""A node whose kubelet serves logs: an HTTPS server for the API server.

`write` adds the output of a container, and `finish` is its end. Times are those of a clock that advances with each
line, so that tests know the order.
"""

import contextlib
import http.server
import json
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from testing.kube.namespace import Namespace

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_LIMIT_S = 60.0


class Log:
    """The output of one container."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.lines: list[tuple[datetime, str]] = []
        self.ended = False
        self.broken = False
        self.readers = 0

    def read(self, asked: Mapping[str, str]) -> Iterator[tuple[datetime, str]]:
        """Yield lines as the API does; with `follow` until the container has ended, or the connection must break."""
        since = datetime.fromisoformat(asked["sinceTime"]) if "sinceTime" in asked else _BEGIN
        sent = max(0, len(self.lines) - int(asked["tailLines"])) if "tailLines" in asked else 0
        while True:
            with self.changed:
                fresh, sent = self.lines[sent:], len(self.lines)
            yield from (line for line in fresh if line[0] >= since)
            with self.changed:
                if sent < len(self.lines):
                    continue
                if self.ended or self.broken or "follow" not in asked:
                    return
                self.changed.wait(_LIMIT_S)


def _append(line: tuple[datetime, str], log: Log) -> None:
    log.lines.append(line)


class Kubelet:
    """One node; a context manager."""

    def __init__(self, namespace: Namespace, certificate: Path, folder: Path) -> None:
        self._namespace = namespace
        self._logs: dict[str, Log] = {}
        self._ticks = 0
        self._node = f"node-{namespace.name}"
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._folder = folder

    def __enter__(self) -> Self:
        self._thread.start()
        self._namespace.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}})
        port = {"kubeletEndpoint": {"Port": self._server.server_address[1]}}
        status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": port}
        self._patch("node", self._node, status)
        return self

    def __exit__(self, *_: object) -> None:
        for log in self._logs.values():
            self._change(log, lambda log: setattr(log, "ended", True))
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def start_pod(self, name: str, *sidecars: str) -> None:
        """Create a running pod on this node."""
        containers = [{"name": container, "image": "image:1"} for container in ("trainer", *sidecars)]
        spec = {"nodeName": self._node, "containers": containers}
        self._namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        self._logs[name] = Log()
        self._patch("pod", name, {"phase": "Running"})

    def write(self, pod: str, *texts: str) -> None:
        """Write lines, each a millisecond after the last one of any pod."""
        for text in texts:
            self._ticks += 1
            line = (_BEGIN + timedelta(milliseconds=self._ticks), text)
            self._change(self._logs[pod], partial(_append, line))

    def finish(self, pod: str) -> None:
        """End the container with success."""
        self._patch("pod", pod, {"phase": "Succeeded"})
        self._change(self._logs[pod], lambda log: setattr(log, "ended", True))

    def drop(self, pod: str) -> None:
        """Break the connections that read its log; the next one works again."""
        log = self._logs[pod]
        self._change(log, lambda log: setattr(log, "broken", True))
        with log.changed:
            assert log.changed.wait_for(lambda: log.readers == 0, _LIMIT_S)
            log.broken = False

    def readers(self, pod: str) -> int:
        """Return how many connections follow its log."""
        return self._logs[pod].readers

    def _patch(self, kind: str, name: str, status: dict[str, Any]) -> None:
        arguments = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        self._namespace.kubectl("patch", kind, name, *arguments)

    @staticmethod
    def _change(log: Log, change: Callable[[Log], object]) -> None:
        with log.changed:
            change(log)
            log.changed.notify_all()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        logs = self._logs

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = urllib.parse.urlsplit(self.path)
                asked = dict(urllib.parse.parse_qsl(path.query))
                _, kind, _, pod, container = path.path.split("/")
                assert (kind, container) == ("containerLogs", "trainer")
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self._send(logs[pod], asked)

            def _send(self, log: Log, asked: dict[str, str]) -> None:
                with log.changed:
                    log.readers += 1
                with contextlib.suppress(OSError):  # the reader has closed the connection
                    for moment, text in log.read(asked):
                        at = f"{moment.isoformat(timespec='microseconds')[:-6]}000Z " if "timestamps" in asked else ""
                        self._chunk(f"{at}{text}\n".encode())
                    if log.broken:
                        self.connection.shutdown(socket.SHUT_RDWR)
                    else:
                        self._chunk(b"")
                with log.changed:
                    log.readers -= 1
                    log.changed.notify_all()

            def _chunk(self, data: bytes) -> None:
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()

            def log_message(self, *_: object) -> None:
                """Write no log."""

        return Handler
