"""Fixed membership: the ranks of each node, and the store that rank 0 serves."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from elasticjob_agent.rendezvous import RendezvousClosedError, RendezvousConnectionError, RendezvousParameters
from elasticjob_agent.rendezvous import static as static_rendezvous
from elasticjob_agent.rendezvous.static import StaticRendezvousHandler
from elasticjob_agent.rendezvous.store import InMemoryStore, StoreTimeout
from elasticjob_agent.rendezvous.store_server import StoreClient, StoreServer
from elasticjob_agent.utils import store as store_util


@pytest.fixture
def client() -> Iterator[StoreClient]:
    server = StoreServer(("127.0.0.1", 0))
    yield StoreClient(("127.0.0.1", server.port), timeout=timedelta(seconds=20))
    server.close()


def node(rank: int, size: int, port: int = 0) -> StaticRendezvousHandler:
    return StaticRendezvousHandler(
        run_id="r", rank=rank, world_size=size, master=("localhost", 29500), store_port=port or None
    )


def test_a_served_store_has_values_counters_and_bytes(client: StoreClient) -> None:
    client.set("a", "text")
    client.multi_set(["b", "c"], [b"\xff\n", ""])
    assert client.multi_get(["a", "b", "c"]) == [b"text", b"\xff\n", b""]
    assert [client.add("n", 2), client.add("n", 3)] == [2, 5]


def test_a_wait_at_a_served_store_ends_at_its_timeout_and_names_the_key(client: StoreClient) -> None:
    client.set_timeout(timedelta(0))
    with pytest.raises(StoreTimeout, match="never"):
        client.get("never")


def test_wrong_use_of_a_served_store_is_the_callers_error(client: StoreClient) -> None:
    with pytest.raises(ValueError, match="shorter"):
        client.multi_set(["a", "b"], ["1"])


def test_many_nodes_wait_for_each_other_at_a_served_store(client: StoreClient) -> None:
    with ThreadPoolExecutor(4) as pool:
        nodes = [StoreClient(client._address, prefix="job/") for _ in range(4)]
        asked = [pool.submit(store_util.synchronize, nodes[r], b"%d" % r, r, 4, "k", timeout=30) for r in range(4)]
        assert [a.result() for a in asked] == [[b"0", b"1", b"2", b"3"]] * 4


def test_a_closed_server_is_a_connection_error() -> None:
    server = StoreServer(("127.0.0.1", 0))
    port = server.port
    server.close()
    client = StoreClient(("127.0.0.1", port), timeout=timedelta(0))
    with pytest.raises(RendezvousConnectionError, match=f"127.0.0.1:{port} cannot be used"):
        client.get("a")


def test_two_static_nodes_share_a_store_and_have_the_endpoint_as_master() -> None:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    nodes = [node(0, 2, port), node(1, 2, port)]
    infos = [each.next_rendezvous() for each in nodes]
    assert infos[1].store is not None
    assert infos[0].store is not None
    infos[1].store.set("from", "one")
    assert infos[0].store.get("from") == b"one"
    # Agents for older torch read the address there.
    assert [infos[1].store.get(key) for key in ("MASTER_ADDR", "MASTER_PORT")] == [b"localhost", b"29500"]
    assert [(i.rank, i.world_size, str(i.bootstrap_store_info)) for i in infos] == [
        (rank, 2, "RendezvousStoreInfo(master_addr='localhost', master_port=29500)") for rank in range(2)
    ]
    assert [each.shutdown() for each in nodes] == [True, True]


def test_a_static_node_has_the_same_ranks_in_every_round_and_no_node_waits() -> None:
    handler = node(0, 1)
    first, second = handler.next_rendezvous(), handler.next_rendezvous()
    assert first == second
    assert isinstance(first.store, InMemoryStore)
    assert (handler.num_nodes_waiting(), handler.get_backend(), handler.get_run_id()) == (0, "static", "r")


def test_a_closed_static_rendezvous_accepts_no_node() -> None:
    handler = node(0, 1)
    handler.set_closed()
    assert handler.is_closed()
    with pytest.raises(RendezvousClosedError):
        handler.next_rendezvous()


@pytest.mark.parametrize(
    ("endpoint", "low", "config", "message"),
    [
        pytest.param("host", 2, {"rank": "0"}, "must be HOST:PORT", id="no port"),
        pytest.param("host:1", 2, {}, "needs the option rank", id="no rank"),
        pytest.param("host:1", 1, {"rank": "0"}, "has a fixed size, not 1 to 2", id="a range"),
        pytest.param("host:1", 2, {"rank": "2"}, "it is 0 to 1", id="no such rank"),
    ],
)
def test_invalid_static_options_are_refused(endpoint: str, low: int, config: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        static_rendezvous.create(RendezvousParameters("static", endpoint, "r", low, 2, **config))
