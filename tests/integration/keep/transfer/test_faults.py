"""Copies over a faulty network: nothing damaged is ever held, and what has arrived is not sent again."""

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from elasticjob_agent.keep.transfer.cancel_token import CancelToken
from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.errors import (
    CancelledTransferError,
    ConnectionEndedError,
    NoSourceError,
    StalledError,
    TransferError,
)
from elasticjob_agent.keep.transfer.frames import Bad, Have
from elasticjob_agent.keep.volume.errors import PartChangedError, VolumeError, VolumeFullError
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from testing.waiting import eventually
from tests.integration.keep.transfer.faulty_network import HOST, FaultyNetwork, cut_after, flip_at, unchanged
from tests.integration.keep.transfer.nodes import PART, Background, Node

Start = Callable[..., Node]
Connect = Callable[[Node], FaultyNetwork]
MIB = 1 << 20


@pytest.fixture
def network() -> Iterator[Connect]:
    """A function that puts a faulty network before a node."""
    made: list[FaultyNetwork] = []

    def connect(node: Node) -> FaultyNetwork:
        made.append(FaultyNetwork(node.address))
        return made[-1]

    yield connect
    for each in made:
        each.close()


def received(node: Node) -> dict[str, int]:
    """Return the sizes of the files that have arrived of a part."""
    root = node.root / "part" / str(PART)
    return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_an_interrupted_copy_goes_on_where_it_ended(
    node: Start, network: Connect, tls: TlsContexts, *, secured: bool
) -> None:
    contexts = tls if secured else None
    origin, peer = node(tls=contexts), node(tls=contexts)
    origin.publish({"a": 2 * MIB, "b": 3 * MIB, "c": MIB})
    way = network(peer)
    way.from_dialer = cut_after(4 * MIB)
    with pytest.raises(TransferError):
        origin.put(way.address)
    eventually(lambda: not peer.volume._receipts, what="the receipt is closed")
    arrived = sum(received(peer).values())
    assert arrived > 3 * MIB
    sent = 0

    def count(_before: int, data: bytes) -> bytes:
        nonlocal sent
        sent += len(data)
        return data

    way.from_dialer = count
    assert origin.put(way.address) == Have()
    assert peer.files() == origin.files()
    assert sent < 6 * MIB - arrived + MIB // 2, "bytes that had arrived were sent again"


def test_a_fetch_goes_on_through_many_interruptions(node: Start, network: Connect) -> None:
    holder, fetcher = node(), node()
    holder.publish({"a": 3 * MIB, "b": 3 * MIB})
    way = network(holder)
    way.from_listener = cut_after(MIB)
    fetcher.fetch(way.address)
    assert fetcher.files() == holder.files()
    assert way.connections >= 6


def test_a_fetch_goes_on_at_another_holder(node: Start, network: Connect) -> None:
    holder, other, fetcher = node(), node(), node()
    holder.publish({"a": 3 * MIB, "b": MIB})
    holder.put(other.address)
    way = network(holder)
    way.damage_first(cut_after(2 * MIB))
    fetcher.fetch(way.address, other.address)
    assert fetcher.files() == holder.files()
    assert way.connections == 1


def test_a_prefix_of_another_copy_is_found_and_fetched_anew(node: Start, network: Connect) -> None:
    """Full copies of two nodes have one name, and may differ."""
    holder, other, fetcher = node(), node(), node()
    holder.publish({"a": 3 * MIB, "same": b"same"})
    other.publish({"a": 3 * MIB, "same": b"same"})
    way = network(holder)
    way.damage_first(cut_after(2 * MIB))
    with pytest.raises(NoSourceError):
        fetcher.fetch(way.address)
    assert received(fetcher)["a"] > MIB
    fetcher.fetch(other.address)
    assert fetcher.files() == other.files()


def test_a_prefix_of_another_copy_is_found_with_tls_too(node: Start, network: Connect, tls: TlsContexts) -> None:
    holder, other, fetcher = (node(tls=tls) for _ in range(3))
    holder.publish({"a": 3 * MIB})
    other.publish({"a": 3 * MIB})
    way = network(holder)
    way.damage_first(cut_after(2 * MIB))
    with pytest.raises(NoSourceError):
        fetcher.fetch(way.address)
    assert received(fetcher)["a"] > MIB
    fetcher.fetch(other.address)
    assert fetcher.files() == other.files()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_the_files_of_two_publications_of_a_part_are_never_mixed(
    node: Start, network: Connect, tls: TlsContexts, *, secured: bool
) -> None:
    holder, other, fetcher = (node(tls=tls if secured else None) for _ in range(3))
    for each in (holder, other):
        each.publish({"a": MIB, "b": MIB, "c": MIB})
    way = network(holder)
    way.damage_first(cut_after(5 * MIB // 2))
    with pytest.raises(NoSourceError):
        fetcher.fetch(way.address)
    assert [received(fetcher)[name] == MIB for name in "abc"] == [True, True, False]
    fetcher.fetch(other.address)
    assert fetcher.files() == other.files()


def test_a_damaged_file_is_refused_and_sent_again(node: Start, network: Connect) -> None:
    origin, peer = node(), node()
    origin.publish({"a": MIB, "b": MIB})
    way = network(peer)
    way.from_dialer = flip_at(3 * MIB // 2)
    answer = origin.put(way.address)
    assert answer == Bad((1,))
    assert received(peer) == {"a": MIB, "b": 0}
    assert origin.has()
    way.from_dialer = unchanged
    assert origin.put(way.address) == Have()
    assert peer.files() == origin.files()


def test_a_network_that_always_damages_never_gives_a_part(node: Start, network: Connect) -> None:
    holder, fetcher = node(), node()
    holder.publish({"a": MIB})
    way = network(holder)
    way.from_listener = flip_at(MIB // 2)
    with pytest.raises(NoSourceError):
        fetcher.fetch(way.address)
    assert not fetcher.has()
    assert holder.has()


@pytest.mark.parametrize("position", range(0, 900, 53))
def test_no_damaged_control_line_is_accepted(node: Start, network: Connect, position: int) -> None:
    origin, peer = node(), node()
    origin.publish({"a": b"x"})
    way = network(peer)
    way.from_dialer = flip_at(position)
    try:
        assert origin.put(way.address) in {Have(), Bad((0,))}
    except TransferError:
        assert not peer.has()
    assert not peer.has() or peer.files() == origin.files()


def test_tls_ends_a_connection_whose_bytes_are_changed(node: Start, network: Connect, tls: TlsContexts) -> None:
    origin, peer = node(tls=tls), node(tls=tls)
    origin.publish({"a": MIB})
    way = network(peer)
    way.from_dialer = flip_at(MIB // 2)
    with pytest.raises(TransferError):
        origin.put(way.address)
    assert not peer.has()


def test_a_file_that_changes_after_it_was_copied_once_is_withdrawn(node: Start) -> None:
    """A map of a file changes it without a new time."""
    origin, peer, other = node(), node(), node()
    origin.publish({"a": MIB})
    assert origin.put(peer.address) == Have()
    path = origin.volume.open_part(PART.step, 0).path / "a"
    times = path.stat()
    with path.open("r+b") as file:
        file.write(b"changed")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(PartChangedError):
        origin.put(other.address)
    assert not origin.has()
    assert not other.has()
    assert peer.has()


def test_a_file_that_becomes_shorter_is_withdrawn(node: Start) -> None:
    origin, peer = node(), node()
    origin.publish({"a": MIB})
    os.truncate(origin.volume.open_part(PART.step, 0).path / "a", MIB // 2)
    with pytest.raises(PartChangedError):
        origin.put(peer.address)
    assert not origin.has()
    assert not peer.has()


def test_a_file_that_cannot_be_read_is_an_error_of_the_volume(node: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, peer = node(), node()
    origin.publish({"a": MIB})

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(VolumeError, match="cannot read a file of a part: Input/output error"):
        origin.put(peer.address)
    assert origin.has(), "it may be read again"


def test_a_holder_withdraws_a_changed_part_and_serves_it_no_more(node: Start) -> None:
    holder, fetcher = node(), node()
    holder.publish({"a": MIB})
    (holder.volume.open_part(PART.step, 0).path / "a").write_bytes(b"x" * MIB)
    with pytest.raises(NoSourceError):
        fetcher.fetch(holder.address)
    assert not holder.has()


class SilentServer:
    """Accepts a connection and reads nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.address = Address(HOST, self._listener.getsockname()[1])

    def close(self) -> None:
        self._listener.close()


def test_a_peer_that_answers_nothing_is_given_up(node: Start) -> None:
    origin, silent = node(stall_s=0.2), SilentServer()
    origin.publish({"a": b"x"})
    with pytest.raises(StalledError):
        origin.put(silent.address)
    silent.close()


class Stop:
    """A change that forwards a MiB, and then nothing until `release`."""

    def __init__(self) -> None:
        self._released = threading.Event()

    def __call__(self, before: int, data: bytes) -> bytes:
        if before > MIB:
            self._released.wait()
        return data

    def release(self) -> None:
        self._released.set()


def test_a_peer_that_stops_reading_is_given_up(node: Start, network: Connect) -> None:
    origin, peer = node(stall_s=1.0), node()
    origin.publish({"a": 64 * MIB})
    way = network(peer)
    way.from_dialer = stop = Stop()
    with pytest.raises(StalledError):
        origin.put(way.address)
    stop.release()
    assert not peer.has()


def test_a_holder_that_stops_sending_is_given_up(node: Start, network: Connect) -> None:
    holder, fetcher = node(), node(stall_s=1.0)
    holder.publish({"a": 64 * MIB})
    way, stop = network(holder), Stop()
    way.damage_first(stop)
    with pytest.raises(NoSourceError):
        fetcher.fetch(way.address)
    stop.release()
    assert received(fetcher)["a"] > 0


def test_a_cancelled_fetch_ends_at_once_and_keeps_what_has_arrived(node: Start, network: Connect) -> None:
    holder, fetcher = node(), node(stall_s=600.0)
    holder.publish({"a": 8 * MIB})
    way = network(holder)
    way.from_listener = stop = Stop()
    token = CancelToken()
    fetch = Background(lambda: fetcher.fetch(way.address, token=token))
    eventually(lambda: received(fetcher).get("a", 0) > 0, what="some bytes have arrived")
    token.cancel()
    with pytest.raises(CancelledTransferError):
        fetch.result()
    stop.release()
    assert received(fetcher)["a"] > 0


def test_a_fetch_from_a_slow_holder_ends_in_time(node: Start, network: Connect) -> None:
    holder, fetcher = node(), node()
    holder.publish({"a": 64 * MIB})
    way = network(holder)
    is_over = threading.Event()

    def slow_down(before: int, data: bytes) -> bytes:
        if before > MIB:
            is_over.wait(0.05)
        return data

    way.from_listener = slow_down
    with pytest.raises(NoSourceError, match="in time"):
        fetcher.fetch(way.address, within_s=0.5)
    is_over.set()
    assert not fetcher.has()


def test_a_cancelled_token_begins_nothing(node: Start) -> None:
    holder, fetcher, token = node(), node(), CancelToken()
    holder.publish({"a": 1})
    token.cancel()
    with pytest.raises(CancelledTransferError):
        fetcher.fetch(holder.address, token=token)


def test_a_fetch_without_room_fails(node: Start) -> None:
    holder, fetcher = node(), node(size_limit=MIB)
    holder.publish({"a": 2 * MIB})
    with pytest.raises(VolumeFullError):
        fetcher.fetch(holder.address)


def test_a_keeper_that_is_starting_again_is_asked_again(node: Start, network: Connect) -> None:
    holder, fetcher = node(), node()
    holder.publish({"a": MIB})
    way = network(holder)

    way.from_listener = lambda _before, data: None if way.connections <= 2 else data
    fetcher.fetch(way.address)
    assert fetcher.files() == holder.files()


def test_a_port_without_a_listener_fails(node: Start) -> None:
    origin, peer = node(), node()
    origin.publish({"a": 1})
    peer.server.close()
    with pytest.raises(ConnectionEndedError):
        origin.put(peer.address)
