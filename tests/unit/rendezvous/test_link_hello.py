"""The first line of a link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.link import Heard
from elasticjob_agent.rendezvous.link_hello import MOST_BYTES, Address, Hello, decode, encode, judge, parse_address
from elasticjob_api.errors import RecordError
from elasticjob_api.world import Member

HELLO = Hello("/elasticjob/cli/a job", Member(3, "0000000a"), "12345678")
LINE = b"elasticjob-link/1 /elasticjob/cli/a%20job 0003 0000000a 12345678\n"

hellos = st.builds(
    Hello,
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=100),
    st.builds(Member, st.integers(0, 0xFFFF), st.from_regex(r"[0-9a-f]{8}", fullmatch=True)),
    st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
)


def test_a_hello_is_one_line_of_words() -> None:
    assert encode(HELLO) == LINE


@given(hellos)
def test_every_hello_is_read_as_it_was_written(hello: Hello) -> None:
    line = encode(hello)
    assert len(line) <= MOST_BYTES
    assert decode(line) == hello


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HTTP/1.1\r\n", id="a browser"),
        pytest.param(LINE[:-1], id="no end"),
        pytest.param(LINE + b"\n", id="more than a line"),
        pytest.param(LINE.replace(b"/1", b"/2"), id="another version"),
        pytest.param(LINE.replace(b"0003", b"3"), id="a short slot"),
        pytest.param(LINE.replace(b"0000000a", b"0000000A"), id="capitals"),
        pytest.param(LINE.replace(b"%20", b" "), id="a word too many"),
        pytest.param(LINE.replace(b"a%20job", b"\xff" * 9), id="bytes that are no text"),
    ],
)
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(RecordError, match="not a hello"):
        decode(line)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(line: bytes) -> None:
    with pytest.raises(RecordError):
        decode(line + b"\0")


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        pytest.param(Hello(HELLO.job, Member(7, "0000000b"), "99999999"), Heard.THEIRS, id="who was meant"),
        pytest.param(Hello(HELLO.job, Member(7, "0000000c"), "99999999"), Heard.OTHER, id="a later stay"),
        pytest.param(Hello("/elasticjob/other", Member(7, "0000000b"), "99999999"), Heard.OTHER, id="another job"),
        pytest.param(HELLO, Heard.OWN, id="oneself"),
    ],
)
def test_whose_answer_it_is(answer: Hello, heard: Heard) -> None:
    assert judge(answer, mine=HELLO, meant=Member(7, "0000000b")) is heard


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("10.0.0.1:4321", Address("10.0.0.1", 4321), id="IPv4"),
        pytest.param("[fd00::1]:4321", Address("fd00::1", 4321), id="IPv6"),
        pytest.param("node-1:1", Address("node-1", 1), id="a name"),
    ],
)
def test_an_address_is_read_as_it_is_written(text: str, address: Address) -> None:
    assert (str(address), parse_address(text)) == (text, address)


@pytest.mark.parametrize("text", ["", "10.0.0.1", ":80", "a:0", "a:65536", "a:-1", "a:x", "a:" + "9" * 5000, "a:²"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None
