"""Lines from bytes: the same however the bytes are split, with bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.supervisor.line_prefixer import MAX_LINE, LinePrefixer


def _pass(pieces: list[bytes], prefix: bytes) -> bytes:
    lines = LinePrefixer(prefix)
    return b"".join([lines.feed(piece) for piece in pieces] + [lines.flush()])


@given(st.lists(st.text(alphabet="a\n").map(str.encode), max_size=20))
def test_the_split_into_pieces_makes_no_difference(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    whole = text if text.endswith(b"\n") or not text else text + b"\n"
    expected = b"".join(b"[0] " + line for line in whole.splitlines(keepends=True))
    assert _pass(pieces, b"[0] ") == expected


def test_nothing_is_shown_before_its_line_ends() -> None:
    lines = LinePrefixer(b"> ")
    assert [lines.feed(piece) for piece in (b"a", b"b\nc", b"\n")] == [b"", b"> ab\n", b"> c\n"]


def test_a_carriage_return_stays_in_its_line() -> None:
    assert _pass([b"10%\r20%\r\n"], b"> ") == b"> 10%\r20%\r\n"


def test_a_line_without_end_is_returned_in_prefixed_pieces() -> None:
    text = b"x" * (2 * MAX_LINE + 5)
    pieces = [text[start : start + 100_000] for start in range(0, len(text), 100_000)]
    shown = _pass(pieces, b"> ").splitlines()
    assert [len(line) for line in shown] == [MAX_LINE + 2, MAX_LINE + 2, 7]
    assert b"".join(line.removeprefix(b"> ") for line in shown) == text


def test_one_large_piece_is_cut_too() -> None:
    shown = LinePrefixer(b"").feed(b"x" * (3 * MAX_LINE)).splitlines()
    assert [len(line) for line in shown] == [MAX_LINE] * 3
