"""The proxy that the fault tests use."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from testing.network.proxy import Proxy, proxy

PATIENCE_S = 20.0


def echo(server: socket.socket) -> None:
    """Send all data back, to one client after another, until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = server.accept()
            with client, contextlib.suppress(OSError):
                while data := client.recv(4096):
                    client.sendall(data)


@pytest.fixture
def target() -> Iterator[int]:
    """The port of a server that echoes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=echo, args=(server,))
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


@pytest.fixture
def way(target: int) -> Iterator[Proxy]:
    with proxy("127.0.0.1", target) as made:
        yield made


def dial(way: Proxy) -> socket.socket:
    host, _, port = way.endpoint.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def exchange(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return client.recv(4096)


def test_data_pass_in_both_directions(way: Proxy) -> None:
    with dial(way) as client:
        assert exchange(client, b"hello") == b"hello"
        assert exchange(client, b"again") == b"again"


def test_stalled_data_arrive_after_the_restore(way: Proxy) -> None:
    with dial(way) as client:
        assert exchange(client, b"a") == b"a"
        way.stall()
        client.sendall(b"b")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(PATIENCE_S)
        way.restore()
        assert client.recv(1) == b"b"


def test_a_cut_resets_open_and_new_connections(way: Proxy) -> None:
    with dial(way) as client:
        assert exchange(client, b"a") == b"a"
        way.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(OSError, match=r"reset|Broken pipe"), dial(way) as client:
        exchange(client, b"b")
    way.restore()
    with dial(way) as client:
        assert exchange(client, b"c") == b"c"


def test_connections_are_refused_until_the_restore_at_the_same_port(way: Proxy) -> None:
    before = way.endpoint
    way.refuse()
    with pytest.raises(ConnectionRefusedError):
        dial(way)
    way.restore()
    assert way.endpoint == before
    with dial(way) as client:
        assert exchange(client, b"a") == b"a"


def test_delayed_data_are_not_lost(way: Proxy) -> None:
    way.delay(0.05)
    with dial(way) as client:
        assert exchange(client, b"a") == b"a"


def fail_after_an_exchange(target: int, clients: list[socket.socket]) -> None:
    with proxy("127.0.0.1", target) as way:
        clients.append(dial(way))
        assert exchange(clients[0], b"a") == b"a"
        raise KeyError


def test_its_connections_end_with_the_proxy_even_after_an_error(target: int) -> None:
    clients: list[socket.socket] = []
    with pytest.raises(KeyError):
        fail_after_an_exchange(target, clients)
    with clients[0] as client, pytest.raises(ConnectionResetError):
        client.recv(1)
