"""Parts that are put to a peer, and fetched from it, over real sockets."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.frames import Dead, Full, Have, Later
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import KeptStep
from testing.waiting import eventually
from tests.integration.keep.transfer.nodes import LINEAGE, PART, Background, Node

Start = Callable[..., Node]
MIB = 1 << 20
FILES: dict[str, bytes | int] = {"data": 3 * MIB + 1, "empty": b"", "sub/dir/.metadata": b"{}", "ä b": 70_000}


@pytest.fixture(params=["plain", "TLS"])
def contexts(request: pytest.FixtureRequest) -> TlsContexts | None:
    """None, or the contexts of TLS."""
    return None if request.param == "plain" else request.getfixturevalue("tls")


def test_a_part_is_put_to_a_peer_with_all_its_files(node: Start, contexts: TlsContexts | None) -> None:
    origin, peer = node(tls=contexts), node(tls=contexts)
    origin.publish(FILES)
    assert origin.put(peer.address) == Have()
    assert peer.files() == origin.files()


def test_a_part_is_fetched_from_a_holder(node: Start, contexts: TlsContexts | None) -> None:
    holder, fetcher = node(tls=contexts), node(tls=contexts)
    holder.publish(FILES)
    fetcher.fetch(holder.address)
    assert fetcher.files() == holder.files()


def test_a_copy_can_be_fetched_from_the_peer_that_got_it(node: Start) -> None:
    origin, peer, fetcher = node(), node(), node()
    part = KeptPart(KeptStep(LINEAGE, 7, 3), 2)
    origin.publish(FILES, part)
    origin.put(peer.address, part)
    fetcher.fetch(peer.address, part=part)
    assert fetcher.files(part) == origin.files(part)


def test_a_copy_records_the_checksums_at_both_ends(node: Start, contexts: TlsContexts | None) -> None:
    origin, peer = node(tls=contexts), node(tls=contexts)
    origin.publish(FILES)
    origin.put(peer.address)
    crcs = [each.volume.open_part(PART.step, PART.index).crcs for each in (origin, peer)]
    assert crcs[0] is not None
    assert crcs[0] == crcs[1]


def test_a_part_that_the_peer_has_is_not_sent_again(node: Start) -> None:
    origin, peer = node(), node()
    origin.publish({"data": b"one"})
    peer.publish({"data": b"two"})
    assert origin.put(peer.address) == Have()
    assert peer.files() == {"data": b"two"}


@pytest.mark.parametrize("refusal", [Later(2.5), Full(), Dead()])
def test_the_policy_of_a_peer_refuses_an_offer(node: Start, refusal: Later | Full | Dead) -> None:
    origin, peer = node(), node(refusal=refusal)
    origin.publish(FILES)
    assert origin.put(peer.address) == refusal
    assert not peer.has()


def test_a_peer_without_room_refuses_an_offer(node: Start) -> None:
    origin, peer = node(), node(size_limit=MIB)
    origin.publish({"data": 2 * MIB})
    assert origin.put(peer.address) == Full()


def test_a_step_that_dies_during_its_transfer_is_dropped(node: Start) -> None:
    origin, peer = node(), node()
    origin.publish({"data": 1000})
    verdicts = iter([None, Dead()])
    peer.receiver._policy = lambda _offer, _origin: next(verdicts)
    assert origin.put(peer.address) == Have()
    peer.server.close()
    assert not peer.has()


def test_a_part_of_thousands_of_files_is_copied(node: Start) -> None:
    origin, peer = node(), node()
    origin.publish({f"shards/{number}": b"%d" % number for number in range(2_500)})
    assert origin.put(peer.address) == Have()
    assert peer.files() == origin.files()


def test_a_part_without_files_is_copied(node: Start) -> None:
    origin, peer = node(), node()
    origin.volume.begin_round(LINEAGE).joinpath("step-120").mkdir()
    assert origin.volume.take("step-120", PART)
    assert origin.put(peer.address) == Have()
    assert peer.files() == {}


def test_a_throttled_copy_takes_its_pieces_at_the_rate(node: Start) -> None:
    waits: list[int] = []

    class CountingThrottle(Throttle):
        def wait(self, count: int) -> None:
            waits.append(count)

    origin, peer = node(), node()
    origin.publish({"data": 3 * MIB})
    assert origin.put(peer.address, throttle=CountingThrottle(16.0 * MIB)) == Have()
    assert waits == [MIB] * 3


def test_a_waiting_copy_goes_on_when_the_rate_is_lifted(node: Start) -> None:
    throttle = Throttle(1.0, clock=lambda: 0.0)
    origin, peer = node(), node()
    origin.publish({"data": 5000})
    copy = Background(lambda: origin.put(peer.address, throttle=throttle))
    eventually(lambda: throttle._condition._waiters, what="the copy waits")  # type: ignore[attr-defined]
    throttle.set_rate(None)
    assert copy.result() == Have()


def test_a_waiting_copy_keeps_no_file_open_so_a_dropped_part_needs_no_memory(
    node: Start, contexts: TlsContexts | None
) -> None:
    opened: list[str] = []

    class RecordingThrottle(Throttle):
        def wait(self, count: int) -> None:
            files = (os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir())
            opened.extend(file for file in files if file.startswith(f"{origin.volume.root}/"))
            super().wait(count)

    origin, peer = node(tls=contexts), node(tls=contexts)
    origin.publish({"data": 3 * MIB, "more": 2 * MIB})
    assert origin.put(peer.address, throttle=RecordingThrottle(16.0 * MIB)) == Have()
    assert opened == []


@pytest.mark.nightly
def test_copies_of_512_mib(node: Start, contexts: TlsContexts | None) -> None:
    size = 512 * MIB
    origin = node(tls=contexts)
    origin.publish({"data": size})
    took_s = []
    for _ in range(3):
        peer = node(tls=contexts)
        began_s = time.perf_counter()
        assert origin.put(peer.address) == Have()
        took_s.append(time.perf_counter() - began_s)
        assert peer.has()
        peer.volume.drop([PART])
        peer.volume.trash.empty()
    median_s = statistics.median(took_s)
    print(f"512 MiB in {median_s:.2f} s: {size / median_s / 1e9:.2f} GB/s of {[f'{each:.2f}' for each in took_s]}")
