"""The example's collectives over real sockets: each rank is a thread of this process."""

import json
import socket
import struct
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest
from allreduce import Caller, Group, connect
from errors import JoinError, PeerLostError

from testing.network.ports import unused_port
from testing.waiting import eventually

T = TypeVar("T")

PATIENCE_S = 10.0


def join(port: int, caller: Caller, *, host: str = "127.0.0.1", patience_s: float = PATIENCE_S) -> Group:
    return connect(caller, host, port, patience_s=patience_s)


def as_ranks(count: int, work: Callable[[Group], T], *, host: str = "127.0.0.1") -> list[T]:
    """Do `work` on each of `count` connected ranks; the results in rank order."""
    port = unused_port()

    def one(rank: int) -> T:
        with join(port, Caller(rank, count, 1), host=host) as group:
            return work(group)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def meet(pool: ThreadPoolExecutor, port: int, callers: list[Caller], patience_s: float) -> list[Future[Group]]:
    return [pool.submit(join, port, caller, patience_s=patience_s) for caller in callers]


def say(port: int, hello: Any) -> dict[str, Any]:
    """Introduce oneself to a hub by hand, as soon as it listens; its answer."""
    payload = json.dumps(hello).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(struct.pack("!Q", len(payload)) + payload)
        connection.recv(8, socket.MSG_WAITALL)
        answer: dict[str, Any] = json.loads(connection.recv(4096))
        return answer


def test_every_rank_gets_the_same_sum() -> None:
    sums = as_ranks(4, lambda group: group.all_reduce(np.array([group.rank, 1.0])).tolist())
    assert sums == [[6.0, 4.0]] * 4


def test_sums_are_added_in_rank_order() -> None:
    # Any other order gives 1.0: the small number would be lost first.
    values = [1e16, -1e16, 1.0]
    sums = as_ranks(3, lambda group: group.all_reduce(np.array([values[group.rank]])).tolist())
    assert sums == [[1.0]] * 3
    values = [1e16, 1.0, -1e16]
    sums = as_ranks(3, lambda group: group.all_reduce(np.array([values[group.rank]])).tolist())
    assert sums == [[0.0]] * 3


def test_everybody_gets_everybodys_item() -> None:
    gathered = as_ranks(3, lambda group: group.all_gather({"rank": group.rank}))
    assert gathered == [[{"rank": 0}, {"rank": 1}, {"rank": 2}]] * 3


@pytest.mark.parametrize("root", [0, 2])
def test_any_rank_may_broadcast(root: int) -> None:
    payload = b"x" * 3_000_000
    received = as_ranks(3, lambda group: group.broadcast(payload if group.rank == root else b"mine", root=root))
    assert received == [payload] * 3


def test_a_world_of_one_needs_no_network() -> None:
    with connect(Caller(0, 1, 1), "no.such.host.invalid", 1) as group:
        assert group.all_reduce(np.array([2.0])).tolist() == [2.0]
        assert group.all_gather("mine") == ["mine"]


def test_an_ipv6_address_works() -> None:
    assert as_ranks(2, lambda group: group.all_gather(group.rank), host="::1") == [[0, 1]] * 2


def test_a_lost_peer_is_named_with_what_was_being_done() -> None:
    def work(group: Group) -> str:
        group.doing = "step 7"
        if group.rank == 1:
            return "left"
        with pytest.raises(PeerLostError) as caught:
            group.all_reduce(np.zeros(3))
        return str(caught.value)

    told = as_ranks(2, work)
    assert told == ["lost the connection to rank 1 at step 7: it closed the connection", "left"]


def test_a_silent_peer_is_given_up_in_the_end() -> None:
    port = unused_port()
    with ThreadPoolExecutor(2) as pool:
        hub, peer = (future.result() for future in meet(pool, port, [Caller(0, 2, 1), Caller(1, 2, 1)], 0.3))
        with hub, peer, pytest.raises(PeerLostError, match="rank 1 at the start: it was silent for too long"):
            hub.all_gather(0)


def test_a_worker_of_an_earlier_round_is_refused_and_the_round_goes_on() -> None:
    port = unused_port()
    with ThreadPoolExecutor(2) as pool:
        hub = pool.submit(join, port, Caller(0, 2, 5))
        with pytest.raises(JoinError, match=r"refused by rank 0 at 127.0.0.1: rank 1 is of round 4, this is round 5"):
            join(port, Caller(1, 2, 4))
        with join(port, Caller(1, 2, 5)) as right, hub.result() as group:
            peers = pool.submit(right.all_gather, 1)
            assert group.all_gather(0) == peers.result() == [0, 1]


def test_a_worker_waits_while_an_earlier_rounds_hub_is_still_there() -> None:
    port = unused_port()
    with ThreadPoolExecutor(2) as pool:
        old_hub = pool.submit(join, port, Caller(0, 2, 4), patience_s=0.3)
        early = pool.submit(join, port, Caller(1, 2, 5))
        with pytest.raises(JoinError, match="these ranks never came: 1"):
            old_hub.result()
        with join(port, Caller(0, 2, 5)), early.result() as group:
            assert group.rank == 1


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        pytest.param({"rank": 1, "world_size": 4, "round": 1}, "rank 1 counts 4 ranks, here there are 2", id="world"),
        pytest.param({"rank": 2, "world_size": 2, "round": 1}, "there is no rank 2 among 2 ranks", id="rank too high"),
        pytest.param({"rank": "1", "world_size": 2, "round": 1}, "there is no rank 1 among 2 ranks", id="not a number"),
    ],
)
def test_who_does_not_belong_is_told_why(hello: dict[str, Any], reason: str) -> None:
    port = unused_port()
    with ThreadPoolExecutor(1) as pool:
        hub = pool.submit(join, port, Caller(0, 2, 1))
        assert until_listening(lambda: say(port, hello))["refused"] == reason
        with join(port, Caller(1, 2, 1)) as peer, hub.result() as group:
            assert (group.rank, peer.rank) == (0, 1)


def test_a_second_process_with_the_same_rank_is_refused() -> None:
    port = unused_port()
    with ThreadPoolExecutor(1) as pool:
        hub = pool.submit(join, port, Caller(0, 3, 1))
        with join(port, Caller(1, 3, 1)):
            with pytest.raises(JoinError, match="rank 1 is here already"):
                join(port, Caller(1, 3, 1))
            with join(port, Caller(2, 3, 1)) as last, hub.result() as group:
                assert (group.rank, last.rank) == (0, 2)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"", b"\0\0\0\0\0\0\0\4nope"])
def test_a_stranger_does_not_disturb_the_meeting(noise: bytes) -> None:
    port = unused_port()
    with ThreadPoolExecutor(1) as pool:
        hub = pool.submit(join, port, Caller(0, 2, 1))
        with until_listening(lambda: socket.create_connection(("127.0.0.1", port))) as stranger:
            stranger.sendall(noise)
        with join(port, Caller(1, 2, 1)) as peer, hub.result() as group:
            assert (group.rank, peer.rank) == (0, 1)


def test_missing_ranks_are_named() -> None:
    with pytest.raises(JoinError, match=r"waited at 127.0.0.1 port \d+, but these ranks never came: 1, 2"):
        join(unused_port(), Caller(0, 3, 1), patience_s=0.1)


def test_a_missing_hub_is_named_with_the_reason() -> None:
    with pytest.raises(JoinError, match=r"cannot reach rank 0 at 127.0.0.1 port \d+: Connection refused"):
        join(unused_port(), Caller(1, 2, 1), patience_s=0.1)


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(JoinError, match=rf"cannot listen at 127.0.0.1 port {port}: .*in use"):
            join(port, Caller(0, 2, 1), patience_s=0.1)


def until_listening(attempt: Callable[[], T]) -> T:
    """Repeat until the hub accepts connections."""

    def one() -> T | None:
        try:
            return attempt()
        except ConnectionRefusedError:
            return None

    value = eventually(one, within_s=PATIENCE_S, what="a listening hub")
    assert value is not None
    return value
