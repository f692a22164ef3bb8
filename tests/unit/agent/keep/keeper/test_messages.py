"""Messages between an agent and its keeper: each is read as it was written, and nothing else is."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.keeper import line_parser
from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.keep.keeper.fetch_sources import decode_sources, encode_sources
from elasticjob_agent.keep.keeper.line_parser import LineParser
from elasticjob_agent.keep.keeper.messages import (
    Answer,
    BeginRequest,
    DropRequest,
    EraseRequest,
    FetchRequest,
    FetchResult,
    HoldingsUpdate,
    JoinRequest,
    KeeperStatus,
    LingerRequest,
    LingerResult,
    Message,
    Note,
    OpenRequest,
    PeerRecord,
    PeersRequest,
    ProgressUpdate,
    Request,
    RestoreRequest,
    SealRequest,
    StartedRequest,
    StatusRequest,
    decode_holdings,
    decode_message,
    decode_request,
    encode_holdings,
    encode_message,
    encode_request,
)
from elasticjob_agent.keep.keeper.persist_messages import DrainResult, ListRequest, PersistUpdate
from elasticjob_agent.keep.keeper.sentences import MOST_LETTERS
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import Holdings
from elasticjob_api.one_line import one_line
from testing.kept_steps import histories, holdings, kept_steps, lineages

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
SENTENCES = TEXTS.map(one_line)
COUNTS = st.integers(0, 1 << 50)
SECONDS = st.floats(0, 1e6)
PEERS = st.lists(st.builds(PeerRecord, TEXTS, TEXTS, st.integers(0, 65_535), TEXTS), max_size=3).map(tuple)
PLACES = st.builds(RoundPlace, *[st.integers(0, 9_999)] * 5)
REQUESTS = (
    st.builds(OpenRequest, TEXTS, TEXTS, TEXTS, st.none() | COUNTS, st.integers(0, 0o777), TEXTS, TEXTS)
    | st.builds(JoinRequest, TEXTS, TEXTS, TEXTS, st.none() | histories, st.none() | lineages)
    | st.builds(
        BeginRequest, TEXTS, lineages, histories, st.none() | kept_steps, st.none() | PLACES, COUNTS, COUNTS, COUNTS
    )
    | st.builds(PeersRequest, lineages, PEERS, st.booleans(), PEERS)
    | st.builds(RestoreRequest, kept_steps)
    | st.builds(
        FetchRequest, kept_steps, st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2).map(tuple)), SECONDS, COUNTS
    )
    | st.builds(LingerRequest, histories, st.none() | lineages, SECONDS)
    | st.builds(ListRequest, COUNTS)
    | st.builds(DropRequest, st.lists(kept_steps, max_size=3).map(tuple))
    | st.sampled_from([StartedRequest(), SealRequest(), StatusRequest(), EraseRequest()])
)
MESSAGES = (
    st.builds(
        Answer,
        st.integers(0, 1 << 40),
        SENTENCES,
        TEXTS,
        TEXTS,
        st.none() | holdings.map(encode_holdings),
        st.none() | st.builds(KeeperStatus, *[COUNTS] * 4, st.booleans(), COUNTS, COUNTS),
        st.integers(0, 65_535),
    )
    | st.builds(ProgressUpdate, st.none() | kept_steps, st.none() | COUNTS, COUNTS, COUNTS, SENTENCES)
    | st.builds(FetchResult, COUNTS, TEXTS, SENTENCES)
    | st.builds(LingerResult, st.booleans())
    | st.builds(HoldingsUpdate, holdings.map(encode_holdings))
    | st.builds(PersistUpdate, st.booleans(), COUNTS, st.dictionaries(TEXTS, COUNTS, max_size=3), SENTENCES, COUNTS)
    | st.builds(DrainResult, COUNTS, SENTENCES)
    | st.builds(Note, SENTENCES)
)


@given(st.integers(0, 1 << 40), REQUESTS)
def test_a_request_is_read_as_it_was_written(number: int, request: Request) -> None:
    line = encode_request(number, request)
    assert line.count(b"\n") == 1
    assert decode_request(line) == (number, request)


@given(MESSAGES)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    line = encode_message(message)
    assert line.count(b"\n") == 1
    assert decode_message(line) == message


@pytest.mark.parametrize(
    "message_of",
    [
        lambda sentence: Answer(1, error=sentence),
        lambda sentence: ProgressUpdate(degraded=sentence),
        lambda sentence: FetchResult(1, error=sentence),
        lambda sentence: PersistUpdate(error=sentence),
        lambda sentence: DrainResult(1, error=sentence),
        Note,
    ],
    ids=["answer", "progress", "fetch", "persisted", "drain", "note"],
)
def test_a_sentence_for_users_is_one_line_of_bounded_length(message_of: Callable[[str], Message]) -> None:
    forged = "the file 'a\nERROR forged\x1b[2J' is refused" + "x" * 2 * MOST_LETTERS
    expected = "the file 'a ERROR forged [2J' is refused"
    found = decode_message(encode_message(message_of(forged)))
    assert found == message_of(expected + "x" * (MOST_LETTERS - len(expected)))


def test_a_sentence_that_is_no_text_is_refused() -> None:
    with pytest.raises(ControlError, match="is not a string"):
        decode_message(b'{"kind": "notice", "text": 5}')


@given(holdings)
def test_holdings_are_read_as_they_were_written(held: Holdings) -> None:
    assert decode_holdings(encode_holdings(held)) == held


@given(
    st.dictionaries(
        st.integers(0, 8),
        st.lists(st.builds(Address, st.just("10.0.0.1"), st.integers(1, 65_535)), max_size=3).map(tuple),
    )
)
def test_sources_are_read_as_they_were_written(sources: dict[int, tuple[Address, ...]]) -> None:
    assert decode_sources(encode_sources(sources), 9) == sources


@pytest.mark.parametrize("indices", ["9", "x", ""])
def test_sources_of_parts_that_a_step_does_not_have_are_refused(indices: str) -> None:
    with pytest.raises(ControlError):
        decode_sources({indices: ("10.0.0.1:1",)}, 9)


def test_a_link_secret_is_not_shown() -> None:
    assert "5ec7e7" not in repr(JoinRequest("run", "0001aaaaaaaa", "5ec7e7"))


@given(st.binary(max_size=50) | st.builds(lambda value: json.dumps(value).encode(), st.dictionaries(TEXTS, TEXTS)))
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(ControlError):
        decode_request(line)
    with pytest.raises(ControlError):
        decode_message(line)


@pytest.mark.parametrize(
    "value",
    [
        {"request": 1, "do": "restore"},
        {"request": 1, "do": "restore", "step": "3.a.5.1"},
        {"request": 1, "do": "restore", "step": {"lineage": {"round": 3, "nonce": "../x"}, "number": 5, "parts": 1}},
        {"request": "1", "do": "seal"},
        {"request": 1, "do": "seal", "more": 1},
        {"request": 1, "do": "open", "root": 5, "job": "a"},
    ],
    ids=str,
)
def test_a_request_with_a_wrong_field_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ControlError):
        decode_request(json.dumps(value).encode())


@pytest.mark.parametrize("texts", [{"3.a.5.1": "1"}, {"3.a.5": "0"}, {"3.a/b.5.1": "0"}, {"3.a.5.1": ""}], ids=str)
def test_other_texts_are_no_holdings(texts: dict[str, str]) -> None:
    with pytest.raises(ControlError):
        decode_holdings(texts)


@given(st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line), max_size=6), st.data())
def test_lines_are_whole_however_their_bytes_arrive(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    buffer, found = LineParser(), []
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        found += buffer.feed(stream[:count])
        stream = stream[count:]
    assert found == lines


def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_parser, "LINE_LIMIT", 10)
    buffer = LineParser()
    assert buffer.feed(b"0123456789") == []
    with pytest.raises(ControlError, match="more than 10 bytes"):
        buffer.feed(b"0")
