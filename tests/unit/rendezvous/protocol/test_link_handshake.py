"""The first lines of a link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.crash_proof import DialOutcome
from elasticjob_agent.rendezvous.protocol.link_handshake import (
    MAX_BYTES,
    Address,
    Authenticator,
    Hello,
    Peer,
    decode,
    decode_challenge,
    encode,
    encode_challenge,
    parse_address,
    verify,
)
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member

HELLO = Hello("/elasticjob/cli/a job", Member(3, "0000000a"), "0123456789abcdef")
SEAL = Authenticator(b"k" * 32, Peer.DIALS, "f" * 16)
TEXT = b"elasticjob-link/2 /elasticjob/cli/a%20job 0003 0000000a 0123456789abcdef"
LINE = TEXT + b" " + SEAL.sign(TEXT) + b"\n"

hellos = st.builds(
    Hello,
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=100),
    st.builds(Member, st.integers(0, 0xFFFF), st.from_regex(r"[0-9a-f]{8}", fullmatch=True)),
    st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
)


def test_a_hello_is_one_line_of_text() -> None:
    assert encode(HELLO, SEAL) == LINE
    assert len(SEAL.sign(TEXT)) == 64


@given(hellos)
def test_every_hello_is_read_as_it_was_written(hello: Hello) -> None:
    line = encode(hello, SEAL)
    assert len(line) <= MAX_BYTES
    assert decode(line, SEAL) == hello


@given(hellos, st.integers(0, 200), st.integers(1, 255))
def test_a_hello_with_any_byte_changed_is_refused(hello: Hello, where: int, how: int) -> None:
    line = bytearray(encode(hello, SEAL))
    line[where % len(line)] ^= how
    with pytest.raises(RecordError):
        decode(bytes(line), SEAL)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Authenticator(b"K" * 32, Peer.DIALS, "f" * 16), id="another job's key"),
        pytest.param(Authenticator(b"k" * 32, Peer.ANSWERS, "f" * 16), id="a line of the other side, sent back"),
        pytest.param(Authenticator(b"k" * 32, Peer.DIALS, "e" * 16), id="a line of an earlier link, sent again"),
    ],
)
def test_a_hello_with_another_signature_is_refused(other: Authenticator) -> None:
    with pytest.raises(RecordError, match="not signed"):
        decode(encode(HELLO, other), SEAL)


def test_a_challenge_is_read_as_it_was_written() -> None:
    assert decode_challenge(encode_challenge("0123456789abcdef")) == "0123456789abcdef"


@given(st.one_of(st.binary(max_size=100), st.sampled_from([LINE, b"elasticjob-link/2 \n", b"elasticjob-link/2 abc\n"])))
def test_any_other_line_is_refused_as_a_challenge(line: bytes) -> None:
    with pytest.raises(RecordError, match="not the challenge"):
        decode_challenge(line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HTTP/1.1\r\n", id="a browser"),
        pytest.param(
            b"elasticjob-link/1 /elasticjob/cli/a%20job 0003 0000000a 12345678\n", id="a version without keys"
        ),
        pytest.param(TEXT + b"\n", id="no signature"),
        pytest.param(LINE[:-1], id="no end"),
        pytest.param(LINE + b"\n", id="more than a line"),
        pytest.param(LINE.replace(b"/2 ", b"/1 "), id="another version"),
        pytest.param(LINE.replace(b"0003", b"3"), id="a short slot"),
        pytest.param(LINE.replace(b"0000000a", b"0000000A"), id="capitals"),
        pytest.param(LINE.replace(b"%20", b" "), id="a word too many"),
        pytest.param(LINE.replace(b"a%20job", b"\xff" * 9), id="bytes that are not text"),
    ],
)
def test_any_other_line_is_refused(line: bytes) -> None:
    with pytest.raises(RecordError, match="not a hello"):
        decode(line, SEAL)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_without_another_error(line: bytes) -> None:
    with pytest.raises(RecordError):
        decode(line + b"\0", SEAL)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(Hello(HELLO.job, Member(7, "0000000b"), "99999999"), DialOutcome.PEER, id="the expected member"),
        pytest.param(Hello(HELLO.job, Member(7, "0000000c"), "99999999"), DialOutcome.OTHER, id="a later session"),
        pytest.param(
            Hello("/elasticjob/other", Member(7, "0000000b"), "99999999"), DialOutcome.OTHER, id="another job"
        ),
    ],
)
def test_the_answer_of_the_expected_member_and_of_others(answer: Hello, outcome: DialOutcome) -> None:
    assert verify(answer, mine=HELLO, expected=Member(7, "0000000b")) is outcome


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("10.0.0.1:4321", Address("10.0.0.1", 4321), id="IPv4"),
        pytest.param("[fd00::1]:4321", Address("fd00::1", 4321), id="IPv6"),
        pytest.param("node-1:1", Address("node-1", 1), id="a name"),
    ],
)
def test_an_address_is_read_as_it_was_written(text: str, address: Address) -> None:
    assert (str(address), parse_address(text)) == (text, address)


@pytest.mark.parametrize("text", ["", "10.0.0.1", ":80", "a:0", "a:65536", "a:-1", "a:x", "a:" + "9" * 5000, "a:²"])
def test_a_text_without_an_address_gives_none(text: str) -> None:
    assert parse_address(text) is None
