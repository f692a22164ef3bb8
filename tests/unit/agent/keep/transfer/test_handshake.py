"""The first lines between keepers: only a keeper of this job and run, on this connection, is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.transfer.errors import ForeignRunError, HandshakeError
from elasticjob_agent.keep.transfer.handshake import (
    MAX_LINE_BYTES,
    KeeperHello,
    KeeperIdentity,
    Purpose,
    bind_secret,
    check_answer,
    check_peer,
    decode_challenge,
    decode_hello,
    encode_challenge,
    encode_hello,
    session_key,
)
from elasticjob_agent.rendezvous.protocol import link_handshake
from elasticjob_agent.rendezvous.protocol.link_handshake import Authenticator, Hello, Peer
from elasticjob_api.rendezvous_state import Member

SECRET = b"s" * 32
CHALLENGE, NONCE = "c" * 16, "0123456789abcdef"
MINE = KeeperIdentity("/elasticjob/cli/a job", "0000000f", Member(3, "0000000a"))
HELLO = KeeperHello(Purpose.PUT, MINE, NONCE)
DIALS = Authenticator(SECRET, Peer.DIALS, CHALLENGE)


@pytest.mark.parametrize("purpose", Purpose)
def test_a_hello_is_read_as_it_was_sent(purpose: Purpose) -> None:
    hello = KeeperHello(purpose, MINE, NONCE)
    assert decode_hello(encode_hello(hello, DIALS), DIALS) == hello


@given(st.text(min_size=1, max_size=200), st.integers(0, 0xFFFF))
def test_every_job_and_slot_has_a_hello(job: str, slot: int) -> None:
    hello = KeeperHello(Purpose.GET, KeeperIdentity(job, "12345678", Member(slot, "0000000a")), NONCE)
    line = encode_hello(hello, DIALS)
    assert len(line) <= MAX_LINE_BYTES
    assert decode_hello(line, DIALS) == hello


def test_a_challenge_is_read_as_it_was_sent() -> None:
    assert decode_challenge(encode_challenge(CHALLENGE)) == CHALLENGE


@pytest.mark.parametrize(
    "other",
    [
        Authenticator(b"t" * 32, Peer.DIALS, CHALLENGE),
        Authenticator(SECRET, Peer.ANSWERS, CHALLENGE),
        Authenticator(SECRET, Peer.DIALS, "d" * 16),
        Authenticator(bind_secret(SECRET, b"connection"), Peer.DIALS, CHALLENGE),
    ],
    ids=["another secret", "a reflection", "a replay", "a connection with TLS"],
)
def test_a_hello_that_is_not_signed_for_this_connection_is_refused(other: Authenticator) -> None:
    with pytest.raises(HandshakeError):
        decode_hello(encode_hello(HELLO, other), DIALS)


def test_a_secret_is_bound_to_one_connection_of_tls() -> None:
    assert bind_secret(SECRET, b"") == SECRET
    assert len({bind_secret(SECRET, b"one"), bind_secret(SECRET, b"other"), bind_secret(b"t" * 32, b"one")}) == 3


def test_a_hello_for_another_purpose_has_another_signature() -> None:
    line = encode_hello(HELLO, DIALS).replace(b" put ", b" get ")
    with pytest.raises(HandshakeError):
        decode_hello(line, DIALS)


def test_a_hello_of_a_link_is_no_hello_of_a_keeper() -> None:
    line = link_handshake.encode(Hello(MINE.job, MINE.member, NONCE), DIALS)
    with pytest.raises(HandshakeError):
        decode_hello(line, DIALS)


@given(st.integers(0, 500), st.integers(1, 255))
def test_a_changed_byte_is_refused(position: int, change: int) -> None:
    line = bytearray(encode_hello(HELLO, DIALS))
    line[position % len(line)] ^= change
    with pytest.raises(HandshakeError):
        decode_hello(bytes(line), DIALS)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(HandshakeError):
        decode_hello(data, DIALS)
    with pytest.raises(HandshakeError):
        decode_challenge(data)


def test_a_keeper_of_another_run_is_refused_with_both_runs() -> None:
    other = KeeperIdentity(MINE.job, "0000000e", MINE.member)
    with pytest.raises(ForeignRunError, match=r"0000000e.*0000000f"):
        check_peer(other, mine=MINE)


def test_a_keeper_of_another_job_is_refused() -> None:
    with pytest.raises(HandshakeError, match="another"):
        check_peer(KeeperIdentity("/elasticjob/cli/another", MINE.run, MINE.member), mine=MINE)


@pytest.mark.parametrize(
    "answer",
    [KeeperHello(Purpose.GET, MINE, CHALLENGE), KeeperHello(Purpose.PUT, MINE, NONCE)],
    ids=["another purpose", "another connection"],
)
def test_an_answer_to_another_hello_is_refused(answer: KeeperHello) -> None:
    check_answer(KeeperHello(Purpose.PUT, MINE, CHALLENGE), mine=HELLO, challenge=CHALLENGE)
    with pytest.raises(HandshakeError):
        check_answer(answer, mine=HELLO, challenge=CHALLENGE)


def test_each_connection_run_and_purpose_has_a_key_of_its_own() -> None:
    other_run = KeeperIdentity(MINE.job, "0000000e", MINE.member)
    keys = {
        session_key(SECRET, CHALLENGE, HELLO),
        session_key(b"t" * 32, CHALLENGE, HELLO),
        session_key(SECRET, "d" * 16, HELLO),
        session_key(SECRET, CHALLENGE, KeeperHello(Purpose.PUT, MINE, "e" * 16)),
        session_key(SECRET, CHALLENGE, KeeperHello(Purpose.GET, MINE, NONCE)),
        session_key(SECRET, CHALLENGE, KeeperHello(Purpose.PUT, other_run, NONCE)),
    }
    assert len(keys) == 6
