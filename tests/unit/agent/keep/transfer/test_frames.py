"""Messages between keepers: there and back, and a hostile one is refused with an error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_agent.keep.transfer.frames import (
    MAX_MESSAGE_BYTES,
    Bad,
    Busy,
    Dead,
    Full,
    Get,
    Have,
    Later,
    Message,
    NoPart,
    Offer,
    Sums,
    Want,
    decode,
    encode,
)
from elasticjob_agent.keep.volume.file_names import FILE_LIMIT
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import KeptStep, Lineage
from testing.kept_steps import kept_steps

STEP = KeptStep(Lineage(7, "ab"), 120, 8)
PART = KeptPart(STEP, 3)
OFFER = Offer(PART, (("data", 5), ("sub/.metadata", 0)))
EXAMPLES: list[Message] = [
    OFFER,
    Offer(PART, (), Lineage(8, "cd")),
    Get(KeptPart(STEP, 7), 4321),
    Want((0, 5)),
    Sums((0, 2**32 - 1, None)),
    Have(),
    Bad((0, 9)),
    Later(1.5),
    Full(),
    Dead(),
    Busy((Address("10.0.0.7", 80), Address("fd00::7", 81))),
    NoPart(),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_sent(message: Message) -> None:
    assert decode(encode(message)) == message


def test_the_form_of_an_offer() -> None:
    expected = b'OFFER {"part":"7.ab.120.8.3","files":[["data",5],["sub/.metadata",0]]}'
    assert encode(OFFER) == expected


@given(kept_steps, st.data())
def test_every_part_can_be_asked_for(step: KeptStep, data: st.DataObject) -> None:
    part = KeptPart(step, data.draw(st.integers(0, step.parts - 1)))
    message = Get(part, data.draw(st.integers(0, 65535)))
    assert decode(encode(message)) == message


def test_a_field_that_a_newer_version_adds_is_ignored() -> None:
    assert decode(b'LATER {"pauseSeconds":1,"why":"new"}') == Later(1.0)


@pytest.mark.parametrize(
    "data",
    [
        b'OFFER {"part":"7.ab.1.1.0","files":[],"sender":7}',
        b'OFFER {"part":"7.ab.1.1.0","files":[],"sender":"../x"}',
        b"",
        b"{}",
        b"HAVE",
        b"have {}",
        b"HAVE []",
        b"HAVE {}{}",
        b"STOP {}",
        b"GET {}",
        b"GET null",
        b'GET {"part":"7.ab.120.8.8"}',
        b'GET {"part":"7.ab.120.8.-1"}',
        b'GET {"part":"7.ab.120.8"}',
        b'GET {"part":"7.ab.120.8.1".0}',
        b'GET {"part":"7.ab.120.8.1","port":65536}',
        b'GET {"part":"7./..120.8.1"}',
        b'GET {"part":"7.ab.120.0.0"}',
        b'GET {"part":["7.ab.120.8.0"]}',
        b'WANT {"offsets":[-1]}',
        b'WANT {"offsets":[1.5]}',
        b'WANT {"offsets":{"0":1}}',
        b'WANT {"offsets":[9223372036854775808]}',
        b'SUMS {"crcs":[4294967296]}',
        b'SUMS {"crcs":["0"]}',
        b'BAD {"files":[10000]}',
        b'BAD {"files":[-1]}',
        b'LATER {"pauseSeconds":-1}',
        b'LATER {"pauseSeconds":61}',
        b'LATER {"pauseSeconds":NaN}',
        b'LATER {"pauseSeconds":1e999}',
        b'BUSY {"addresses":["a:1","b:1","c:1","d:1","e:1"]}',
        b'BUSY {"addresses":["a"]}',
        b'BUSY {"addresses":["a:70000"]}',
        b'BUSY {"addresses":[1]}',
        b"HAVE \xff{}",
        b"HAVE " + b"[" * 100_000,
        b'WANT {"offsets":[' + b"9" * 10_000 + b"]}",
        b"HAVE " + b" " * MAX_MESSAGE_BYTES + b"{}",
    ],
    ids=lambda data: repr(data[:40]),
)
def test_a_message_that_no_keeper_sends_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data)


@pytest.mark.parametrize(
    "files",
    [
        [["../x", 1]],
        [["/etc/passwd", 1]],
        [["a", 1], ["a", 1]],
        [["a", 1], ["a/b", 1]],
        [["a\0b", 1]],
        [["\ud800", 1]],
        [["a", -1]],
        [["a", True]],
        [["a", 1.0]],
        [["a"]],
        [["a", 1, 2]],
        ["a"],
        "a",
        {"a": 1},
        None,
        [["a", 1 << 70]],
        [["x" * 256, 1]],
        [["/".join("abcdefghij"), 1]],
        [[str(number), 0] for number in range(FILE_LIMIT + 1)],
    ],
    ids=lambda files: repr(files)[:40],
)
def test_an_offer_of_files_that_no_part_can_have_is_refused(files: Any) -> None:
    value = {"part": str(PART), "files": files}
    with pytest.raises(FrameError):
        decode(b"OFFER " + json.dumps(value).encode())


def test_an_offer_that_is_too_long_is_not_sent() -> None:
    long = tuple((f"{'x' * 250}/{'y' * 245}/{number}", 0) for number in range(FILE_LIMIT))
    with pytest.raises(FrameError):
        encode(Offer(PART, long))


def test_the_most_files_of_usual_names_can_be_offered() -> None:
    offer = Offer(PART, tuple((f"shards/__{number}_0.distcp", 1 << 40) for number in range(FILE_LIMIT)))
    assert decode(encode(offer)) == offer


_words = st.sampled_from([encode(message).partition(b" ")[0] for message in EXAMPLES])
_fields = st.sampled_from(["part", "files", "offsets", "crcs", "pauseSeconds", "addresses", "port"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(str(PART)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(_words, st.dictionaries(_fields, _values) | _values)
def test_any_value_is_a_message_or_is_refused(word: bytes, value: Any) -> None:
    data = word + b" " + json.dumps(value).encode()
    try:
        message = decode(data)
    except FrameError:
        return
    assert decode(encode(message)) == message


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_are_refused(data: bytes) -> None:
    try:
        decode(data)
    except FrameError:
        return


@given(st.sampled_from(EXAMPLES), st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_gives_a_message_or_is_refused(message: Message, position: int, change: int) -> None:
    data = bytearray(encode(message))
    data[position % len(data)] ^= change
    try:
        decode(bytes(data))
    except FrameError:
        return
