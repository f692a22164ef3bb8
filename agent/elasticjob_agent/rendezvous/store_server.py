"""An in-memory store for several hosts: one node serves it over TCP, the others are its clients.

It is for jobs of fixed membership without etcd. Each connection has one request and one answer, each a line of JSON. A
request that waits needs a thread of the server. Like torch's store it trusts its network: there is no password.
"""

import base64
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from elasticjob_agent.rendezvous.errors import RendezvousConnectionError
from elasticjob_agent.rendezvous.store import DEFAULT_TIMEOUT, InMemoryStore, StoreTimeout

log = logging.getLogger(__name__)

_AGAIN_S = 0.05
_ANSWER_S = 10.0
"""Seconds after the time-out of a request until its answer counts as lost."""


class StoreServer:
    """Serves a new store at `address` until it is closed."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Raise OSError if the address cannot be bound."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family, backlog=1024)
        self._store = InMemoryStore()
        self._thread = threading.Thread(target=self._serve, name="store server", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port of the listener."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Accept no more requests; those that wait end by themselves."""
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`, which `close` alone does not
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream:
            try:
                line = stream.readline()
                if line:
                    stream.write(json.dumps(_answer(self._store, json.loads(line))).encode() + b"\n")
                    stream.flush()
            except OSError as error:
                log.debug("the client of the store closed its connection: %s", error)


def _answer(store: InMemoryStore, request: dict[str, Any]) -> dict[str, Any]:
    keys: list[str] = request["keys"]
    try:
        if request["do"] == "set":
            store.multi_set(keys, [base64.b64decode(value) for value in request["values"]])
            return {}
        if request["do"] == "add":
            return {"number": store.add(keys[0], request["amount"])}
        store.wait(keys, timedelta(seconds=request["timeout_s"]))
        return {"values": [base64.b64encode(value).decode() for value in store.multi_get(keys)]}
    except StoreTimeout as error:
        return {"late": str(error)}
    except ValueError as error:
        return {"wrong": str(error)}


class StoreClient:
    """A store that another process serves; keys get `prefix`, and the time-out is this client's own."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        prefix: str = "",
        timeout: timedelta = DEFAULT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connect at the first call only; that call waits until the server runs."""
        self._address = address
        self._prefix = prefix
        self._timeout = timeout
        self._clock = clock

    @property
    def timeout(self) -> timedelta:
        """The longest time that a wait may take."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time-out of this client."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Write a value."""
        self.multi_set([key], [value])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Write several values at once; raise ValueError if there are not as many values as keys."""
        raw = [value.encode() if isinstance(value, str) else bytes(value) for value in values]
        self._ask("set", keys, values=[base64.b64encode(value).decode() for value in raw])

    def get(self, key: str) -> bytes:
        """Wait for the key, and return its value; raise StoreTimeout."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for all keys, and return their values; raise StoreTimeout."""
        return [base64.b64decode(value) for value in self._ask("get", keys)["values"]]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, and return its new value."""
        return int(self._ask("add", [key], amount=amount)["number"])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys exist; raise StoreTimeout."""
        self._ask("get", keys, timeout=timeout)

    def _ask(self, do: str, keys: Sequence[str], *, timeout: timedelta | None = None, **more: Any) -> dict[str, Any]:
        timeout_s = (self._timeout if timeout is None else timeout).total_seconds()
        request = {"do": do, "keys": [self._prefix + key for key in keys], "timeout_s": timeout_s, **more}
        answer = self._exchange(json.dumps(request).encode() + b"\n", timeout_s)
        if "late" in answer:
            raise StoreTimeout(answer["late"])
        if "wrong" in answer:
            raise ValueError(answer["wrong"])
        return answer

    def _exchange(self, request: bytes, timeout_s: float) -> dict[str, Any]:
        host, port = self._address
        try:
            with self._connect(timeout_s) as connection:
                connection.settimeout(timeout_s + _ANSWER_S)
                connection.sendall(request)
                with connection.makefile("rb") as answers:
                    line = answers.readline()
        except OSError as error:
            raise RendezvousConnectionError(f"the store at {host}:{port} cannot be used: {error}") from error
        if not line:
            raise RendezvousConnectionError(f"the store at {host}:{port} closed the connection; its node has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _connect(self, timeout_s: float) -> socket.socket:
        deadline_s = self._clock() + timeout_s
        while True:
            try:
                return socket.create_connection(self._address, timeout=max(_AGAIN_S, timeout_s))
            except OSError:
                if self._clock() >= deadline_s:
                    raise
            time.sleep(_AGAIN_S)  # rank 0 may start later than this node, and nothing can notify us
