"""A host on the network gets nothing from a keeper without the job's secret, and with it only what is allowed."""

import contextlib
import functools
import json
import socket
from typing import Any

import pytest

from elasticjob_agent.keep.transfer import frames
from elasticjob_agent.keep.transfer import session as sessions
from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.dialer import random_hex
from elasticjob_agent.keep.transfer.errors import ForeignRunError, HandshakeError, TransferError
from elasticjob_agent.keep.transfer.frames import Get, Offer, Sums, Want
from elasticjob_agent.keep.transfer.handshake import (
    KeeperHello,
    Purpose,
    encode_challenge,
    encode_hello,
)
from elasticjob_agent.keep.transfer.server import MAX_STRANGERS
from elasticjob_agent.keep.transfer.session import KeeperCredentials, Session, connect, dial
from elasticjob_agent.rendezvous.protocol.link_handshake import Address, Authenticator, Peer
from testing.waiting import eventually
from tests.integration.keep.transfer.conftest import contexts
from tests.integration.keep.transfer.faulty_network import HOST, FaultyNetwork
from tests.integration.keep.transfer.nodes import PART, SECRET, Node
from tests.integration.keep.transfer.peer_session import CREDENTIALS, IDENTITY, Start, session_with


def replies_to(node: Node, *pieces: bytes) -> bytes:
    """Return all that a keeper sends to a client that sends this."""
    received = b""
    with (
        socket.create_connection((HOST, node.address.port), timeout=30) as client,
        contextlib.suppress(ConnectionError),
    ):
        for piece in pieces:
            client.sendall(piece)
        while data := client.recv(65536):
            received += data
    return received


def is_ended(session: Session) -> bool:
    """Return whether the keeper has ended the session without a further message."""
    try:
        session.receive()
    except TransferError:
        return True
    return False


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b"\n", b"\xff\n", b"\x16\x03\x01\x02\x00\n", b"elasticjob-keep/1 \n"],
)
def test_a_stranger_gets_a_challenge_at_most(node: Start, data: bytes) -> None:
    keeper, fetcher = node(), node()
    keeper.publish({"a": 1})
    assert replies_to(keeper, data).count(b"\n") <= 1
    fetcher.fetch(keeper.address)


def test_a_stranger_that_sends_nothing_is_dropped_in_time(node: Start) -> None:
    assert replies_to(node()).count(b"\n") == 1


def test_a_flood_of_silent_strangers_blocks_no_keeper(node: Start) -> None:
    keeper, fetcher = node(), node()
    keeper.publish({"a": 1000})
    with contextlib.ExitStack() as flood:
        for _ in range(MAX_STRANGERS + 20):
            flood.enter_context(socket.create_connection((HOST, keeper.address.port)))
        assert len(keeper.server._strangers) <= MAX_STRANGERS
        fetcher.fetch(keeper.address)
    assert fetcher.has()


def test_a_host_that_connects_again_and_again_ends_its_own_connections_only(
    node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may need longer for the flood than a stranger has.
    monkeypatch.setattr(sessions, "answer_dial", functools.partial(sessions.answer_dial, within_s=60.0))
    keeper = node()
    keeper.publish({"a": 1})
    connection = connect(keeper.address, stall_s=30.0)
    with contextlib.ExitStack() as flood:
        flood.callback(connection.close)
        for _ in range(MAX_STRANGERS + 20):
            client = socket.create_connection((HOST, keeper.address.port), timeout=30, source_address=("127.0.0.2", 0))
            flood.enter_context(client)
            assert client.recv(1), "the keeper counts this connection"
        session = dial(connection, CREDENTIALS, Purpose.GET, random_hex=random_hex)
        session.send(Get(PART))
        assert session.receive() == Offer(PART, (("a", 1),))


@pytest.mark.parametrize("purpose", Purpose)
def test_a_keeper_with_another_secret_is_a_stranger(node: Start, purpose: Purpose) -> None:
    other = KeeperCredentials(IDENTITY, b"t" * 32)
    with pytest.raises(TransferError), session_with(node(), purpose, other):
        pass


def test_a_listener_with_another_secret_gets_no_part(node: Start) -> None:
    origin, stranger = node(), node(secret=b"t" * 32)
    origin.publish({"a": 1})
    with pytest.raises(TransferError):
        origin.put(stranger.address)
    assert not stranger.has()


def test_a_listener_that_knows_no_secret_cannot_pretend(node: Start) -> None:
    origin = node()
    origin.publish({"a": 1})
    with socket.create_server((HOST, 0)) as listener:
        connection = connect(Address(HOST, listener.getsockname()[1]), stall_s=30.0)
        pretender, _ = listener.accept()
        pretender.sendall(encode_challenge("0" * 16))
        guess = Authenticator(b"guess" * 6, Peer.ANSWERS, "0" * 16)
        pretender.sendall(encode_hello(KeeperHello(Purpose.PUT, IDENTITY, "0" * 16), guess))
        with pytest.raises(HandshakeError, match="signed"):
            dial(connection, origin.credentials(), Purpose.PUT, random_hex=random_hex)
        connection.close()
        pretender.close()


def test_a_reflected_hello_is_no_answer(node: Start) -> None:
    origin = node()
    with socket.create_server((HOST, 0)) as listener:
        connection = connect(Address(HOST, listener.getsockname()[1]), stall_s=30.0)
        mirror, _ = listener.accept()
        nonce = "0123456701234567"
        hello = KeeperHello(Purpose.PUT, origin.credentials().identity, nonce)
        mirror.sendall(encode_challenge(nonce))
        mirror.sendall(encode_hello(hello, Authenticator(SECRET, Peer.DIALS, nonce)))
        with pytest.raises(HandshakeError, match="signed"):
            dial(connection, origin.credentials(), Purpose.PUT, random_hex=lambda: nonce[:8])
        connection.close()
        mirror.close()


def test_both_sides_name_a_foreign_run(node: Start) -> None:
    keeper, foreign = node(), node(run="0000000e")
    keeper.publish({"a": 1})
    foreign.publish({"a": 1})
    with pytest.raises(ForeignRunError, match="0000000e"):
        keeper.put(foreign.address)
    with pytest.raises(ForeignRunError, match="0000000f"):
        foreign.put(keeper.address)


def test_a_session_ends_when_the_volume_gets_another_run(node: Start) -> None:
    keeper = node()
    with session_with(keeper, Purpose.GET) as session:
        keeper.volume.adopt_run("0000000e")
        session.send(Get(PART))
        assert is_ended(session)


def test_recorded_lines_open_no_other_session(node: Start) -> None:
    keeper = node()
    keeper.publish({"a": 1})
    network, sent = FaultyNetwork(keeper.address), bytearray()

    def record(_before: int, data: bytes) -> bytes:
        sent.extend(data)
        return data

    network.from_dialer = record
    fetcher = node()
    fetcher.fetch(network.address)
    network.close()
    assert b"elasticjob-keep/1 get" in sent
    assert b"GET " in sent
    assert replies_to(keeper, bytes(sent)).count(b"\n") == 1


def test_a_line_that_is_sent_twice_ends_the_session(node: Start) -> None:
    keeper = node()
    with session_with(keeper, Purpose.PUT) as session:
        line = session.outgoing.encode(frames.encode(Offer(PART, (("a", 1),))))
        session.connection.write(line)
        assert session.receive() == Want((0,))
        session.connection.write(b"x" + line)
        assert is_ended(session)
    eventually(lambda: not keeper.volume._receipts)
    assert not keeper.has()


def test_a_keeper_without_credentials_sends_nothing(node: Start) -> None:
    keeper = node()
    keeper.server._credentials = lambda: None
    assert replies_to(keeper) == b""


def test_a_keeper_with_tls_speaks_to_no_other(node: Start, tls: TlsContexts) -> None:
    keeper, plain = node(tls=tls), node()
    plain.publish({"a": 1})
    with pytest.raises(TransferError):
        plain.put(keeper.address)
    assert b"elasticjob" not in replies_to(keeper, b"x\n")


def test_a_certificate_of_another_authority_is_refused(
    node: Start, tls: TlsContexts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    origin, peer = node(tls=contexts(tmp_path_factory.mktemp("other"))), node(tls=tls)
    origin.publish({"a": 1})
    with pytest.raises(TransferError):
        origin.put(peer.address)
    assert not peer.has()


# Peers that know the secret and do not keep to the protocol.


def send_raw(session: Session, text: str) -> None:
    """Send a signed message that the codec of this side would refuse."""
    session.connection.write(session.outgoing.encode(text.encode()))


@pytest.mark.parametrize(
    "files",
    [
        [["../../escaped", 1]],
        [["/escaped", 1]],
        [["a/../../escaped", 1]],
        [["a\0b", 1]],
        [["a", 1], ["a", 1]],
        [["a", -1]],
        [[str(number), 0] for number in range(10_001)],
        [["a/" * 20 + "b", 1]],
    ],
    ids=lambda files: repr(files)[:30],
)
def test_an_offer_that_no_directory_can_have_ends_the_session(node: Start, files: Any) -> None:
    keeper = node()
    before = sorted(keeper.root.parent.rglob("*"))
    with session_with(keeper, Purpose.PUT) as session:
        send_raw(session, "OFFER " + json.dumps({"part": str(PART), "files": files}))
        assert is_ended(session)
    assert sorted(keeper.root.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "text",
    ["", "{}", "OFFER {", "HAVE {}", 'WANT {"offsets":[0]}', "OFFER null", "x" * 100_000, 'GET {"part":"7.ab.1.1.0"}'],
)
def test_a_message_out_of_place_ends_the_session(node: Start, text: str) -> None:
    keeper = node()
    with session_with(keeper, Purpose.PUT) as session:
        send_raw(session, text)
        assert is_ended(session)


def send_endlessly(session: Session, data: bytes) -> None:
    """Send this until the keeper ends the session."""
    for _ in range(1000):
        session.connection.write(data)
    raise AssertionError("the keeper has read everything")


def test_a_message_without_end_ends_the_session(node: Start) -> None:
    keeper = node()
    with session_with(keeper, Purpose.PUT) as session:
        session.connection.write(session.outgoing.encode(b"x" * (frames.MAX_MESSAGE_BYTES + 1)))
        assert is_ended(session)


def test_a_line_without_end_ends_the_session(node: Start) -> None:
    keeper = node()
    with session_with(keeper, Purpose.PUT) as session, pytest.raises(TransferError):
        send_endlessly(session, b"x" * 65536)


def test_data_without_end_is_never_written(node: Start) -> None:
    keeper = node()
    with session_with(keeper, Purpose.PUT) as session:
        session.send(Offer(PART, (("a", 1000),)))
        assert session.receive() == Want((0,))
        with pytest.raises(TransferError):
            send_endlessly(session, b"x" * 65536)
    eventually(lambda: not keeper.volume._receipts, what="the receipt is closed")
    assert (keeper.root / "part" / str(PART) / "a").stat().st_size == 1000
    assert not keeper.has()


@pytest.mark.parametrize("crcs", [(), (0, 0), (None,), (1,)])
def test_sums_that_do_not_fit_make_no_part(node: Start, crcs: tuple[int | None, ...]) -> None:
    keeper = node()
    with session_with(keeper, Purpose.PUT) as session:
        session.send(Offer(PART, (("a", 4),)))
        assert session.receive() == Want((0,))
        session.connection.write(b"data")
        session.send(Sums(crcs))
        if crcs == (1,):
            assert session.receive() == frames.Bad((0,))
        assert is_ended(session)
    assert not keeper.has()


@pytest.mark.parametrize("offsets", [(), (0, 0), (5,)])
def test_offsets_that_are_not_in_the_files_end_the_session(node: Start, offsets: tuple[int, ...]) -> None:
    keeper = node()
    keeper.publish({"a": b"data"})
    with session_with(keeper, Purpose.GET) as session:
        session.send(Get(PART))
        assert session.receive() == Offer(PART, (("a", 4),))
        session.send(Want(offsets))
        assert is_ended(session)


def test_bad_numbers_of_no_file_end_the_session_and_withdraw_nothing(node: Start) -> None:
    keeper = node()
    keeper.publish({"a": b"data"})
    with session_with(keeper, Purpose.GET) as session:
        session.send(Get(PART))
        session.receive()
        session.send(Want((4,)))
        assert isinstance(session.receive(), Sums)
        session.send(frames.Bad((7,)))
        assert is_ended(session)
    assert keeper.has()


def test_a_false_complaint_withdraws_nothing(node: Start) -> None:
    keeper = node()
    keeper.publish({"a": b"data"})
    with session_with(keeper, Purpose.GET) as session:
        session.send(Get(PART))
        session.receive()
        session.send(Want((4,)))
        session.receive()
        session.send(frames.Bad((0,)))
        assert is_ended(session)
    assert keeper.has()
