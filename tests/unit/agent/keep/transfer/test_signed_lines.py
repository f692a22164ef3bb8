"""Control lines of a session: each is accepted once, in its place, in its direction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_agent.keep.transfer.frames import MAX_MESSAGE_BYTES
from elasticjob_agent.keep.transfer.signed_lines import MAX_LINE_BYTES, IncomingLines, OutgoingLines
from elasticjob_agent.rendezvous.protocol.link_handshake import Peer

KEY = b"k" * 32


def receive(lines: bytes, incoming: IncomingLines) -> list[bytes]:
    found = [incoming.take(line) for line in lines.splitlines(keepends=True)]
    return [message for message in found if message is not None]


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=50)))
def test_messages_are_received_as_they_were_sent(texts: list[str]) -> None:
    messages = [text.encode() for text in texts]
    outgoing, incoming = OutgoingLines(KEY, Peer.DIALS), IncomingLines(KEY, Peer.DIALS)
    assert receive(b"".join(outgoing.encode(message) for message in messages), incoming) == messages


@pytest.mark.parametrize("size", [MAX_LINE_BYTES - 67, MAX_LINE_BYTES - 66, 3 * MAX_LINE_BYTES, MAX_MESSAGE_BYTES])
def test_a_long_message_is_sent_in_lines_of_limited_length(size: int) -> None:
    message = b"x" * size
    lines = OutgoingLines(KEY, Peer.DIALS).encode(message)
    assert max(len(line) for line in lines.splitlines(keepends=True)) <= MAX_LINE_BYTES
    assert receive(lines, IncomingLines(KEY, Peer.DIALS)) == [message]


def test_a_message_without_end_is_refused() -> None:
    lines = OutgoingLines(KEY, Peer.DIALS).encode(b"x" * (MAX_MESSAGE_BYTES + 1))
    with pytest.raises(FrameError, match="more than"):
        receive(lines, IncomingLines(KEY, Peer.DIALS))


@pytest.mark.parametrize(
    ("key", "side"), [(b"l" * 32, Peer.DIALS), (KEY, Peer.ANSWERS)], ids=["another session", "a reflection"]
)
def test_a_line_that_another_has_signed_is_refused(key: bytes, side: Peer) -> None:
    with pytest.raises(FrameError):
        receive(OutgoingLines(key, side).encode(b"HAVE {}"), IncomingLines(KEY, Peer.DIALS))


def test_a_repeated_line_is_refused() -> None:
    line = OutgoingLines(KEY, Peer.DIALS).encode(b"HAVE {}")
    with pytest.raises(FrameError):
        receive(line + line, IncomingLines(KEY, Peer.DIALS))


def test_a_line_after_one_that_was_left_out_is_refused() -> None:
    outgoing = OutgoingLines(KEY, Peer.DIALS)
    outgoing.encode(b"HAVE {}")
    with pytest.raises(FrameError):
        receive(outgoing.encode(b"FULL {}"), IncomingLines(KEY, Peer.DIALS))


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_is_refused(position: int, change: int) -> None:
    line = bytearray(OutgoingLines(KEY, Peer.DIALS).encode(b'LATER {"pauseSeconds":5}'))
    line[position % len(line)] ^= change
    with pytest.raises(FrameError):
        IncomingLines(KEY, Peer.DIALS).take(bytes(line))


@given(st.binary(max_size=200))
def test_any_line_is_refused(line: bytes) -> None:
    with pytest.raises(FrameError):
        IncomingLines(KEY, Peer.DIALS).take(line)
