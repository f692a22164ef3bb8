"""The holdings of a node: there and back, bounded, and refused when they are anything else."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import MAX_BYTES, MAX_OLDER, MAX_STEPS, HoldingsRecord, decode_holdings, encode_holdings
from elasticjob_api.kept_steps import (
    PART_LIMIT,
    ROUND_LIMIT,
    STEP_NUMBER_LIMIT,
    KeptStep,
    Lineage,
    PersistedStep,
)
from testing.kept_steps import holdings_records

OLD, NEW = Lineage(6, "0000000f"), Lineage(7, "0000000a")
RECORD = HoldingsRecord(
    port=41234, steps={KeptStep(OLD, 90, 2): frozenset({1}), KeptStep(NEW, 120, 8): frozenset({0, 1, 2, 5})}
)
LINE = b"k1 41234 - 7.0000000a.120.8:0-2,5;6.0000000f.90.2:1"


def test_a_record_is_one_short_line_with_the_newest_step_first() -> None:
    assert encode_holdings(RECORD) == LINE
    assert decode_holdings(LINE) == RECORD


def test_a_node_that_has_nothing_still_has_a_port() -> None:
    assert encode_holdings(HoldingsRecord(port=1)) == b"k1 1 - -"
    assert decode_holdings(b"k1 1 - -") == HoldingsRecord(port=1)


def test_a_node_whose_keeper_cannot_be_reached_has_port_0() -> None:
    assert decode_holdings(b"k1 0 - - listed=no") == HoldingsRecord(port=0, has_listed=False)


def test_a_persisted_step_is_beside_those_in_memory() -> None:
    record = HoldingsRecord(port=1, persisted=PersistedStep("0badcafe", KeptStep(OLD, 90, 2)))
    assert encode_holdings(record) == b"k1 1 0badcafe.6.0000000f.90.2 -"
    assert decode_holdings(encode_holdings(record)) == record


@pytest.mark.parametrize(("has_listed", "word"), [(True, b" listed=yes"), (False, b" listed=no"), (None, b"")])
def test_a_node_with_a_shared_directory_shows_whether_it_has_listed_it(has_listed: bool | None, word: bytes) -> None:  # noqa: FBT001 -- a column of the table
    record = HoldingsRecord(port=1, has_listed=has_listed, sealed="0badcafe")
    assert encode_holdings(record) == b"k1 1 - -" + word + b" sealed=0badcafe"
    assert decode_holdings(encode_holdings(record)) == record


def test_the_older_persisted_steps_of_a_record_have_a_limit() -> None:
    steps = [PersistedStep("0badcafe", KeptStep(OLD, number, 2)) for number in range(90, 90 - MAX_OLDER - 2, -1)]
    record = HoldingsRecord(port=1, persisted=steps[0], older=tuple(steps[1:]))
    assert encode_holdings(replace(record, older=tuple(steps[1:3]))) == (
        b"k1 1 0badcafe.6.0000000f.90.2 - older=0badcafe.6.0000000f.89.2;0badcafe.6.0000000f.88.2"
    )
    assert decode_holdings(encode_holdings(record)).older == tuple(steps[1 : 1 + MAX_OLDER])
    longer = encode_holdings(record) + b";0badcafe.6.0000000f.1.2"
    assert decode_holdings(longer).older == tuple(steps[1 : 1 + MAX_OLDER])
    widest = PersistedStep("r" * 64, KeptStep(Lineage(ROUND_LIMIT - 1, "n" * 64), STEP_NUMBER_LIMIT - 1, PART_LIMIT))
    assert len(encode_holdings(replace(record, persisted=widest, older=(widest,) * MAX_OLDER))) < MAX_BYTES


def test_a_word_about_the_list_that_a_newer_version_writes_is_ignored() -> None:
    assert decode_holdings(b"k1 1 - - listed=perhaps") == HoldingsRecord(port=1)


@given(holdings_records)
def test_a_record_is_read_as_it_was_written_up_to_its_oldest_steps(record: HoldingsRecord) -> None:
    data = encode_holdings(record)
    read = decode_holdings(data)
    assert len(data) <= MAX_BYTES
    assert (read.port, read.persisted, read.older) == (record.port, record.persisted, record.older)
    newest = sorted(record.steps, reverse=True)[: len(read.steps)]
    assert read.steps == {step: record.steps[step] for step in newest}
    assert encode_holdings(read) == data


def test_the_oldest_steps_are_left_out_of_a_record_with_too_many() -> None:
    many = {KeptStep(NEW, number, 1): frozenset({0}) for number in range(MAX_STEPS + 3)}
    read = decode_holdings(encode_holdings(HoldingsRecord(port=1, steps=many)))
    assert sorted(step.number for step in read.steps) == list(range(3, MAX_STEPS + 3))


def test_the_oldest_steps_are_left_out_of_a_record_that_would_be_too_large() -> None:
    every_second = frozenset(range(0, 2000, 2))
    steps = {KeptStep(OLD, 1, 2000): every_second, KeptStep(NEW, 1, 2000): every_second}
    read = decode_holdings(encode_holdings(HoldingsRecord(port=1, steps=steps)))
    assert read.steps == {KeptStep(NEW, 1, 2000): every_second}


def test_the_last_holdings_of_a_node_name_the_state_that_ends_it() -> None:
    record = HoldingsRecord(port=1, sealed="0badcafe")
    assert encode_holdings(record) == b"k1 1 - - sealed=0badcafe"
    assert decode_holdings(encode_holdings(record)) == record
    assert decode_holdings(LINE + b" future=1 sealed=n").sealed == "n"


def test_words_of_a_newer_version_are_ignored() -> None:
    assert decode_holdings(LINE + b" future=1 more") == RECORD


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"k2 1 - -", id="another version"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(b"k1 1 -", id="no steps"),
        pytest.param(b"k1  - -", id="no port"),
        pytest.param(b"k1 -1 - -", id="a port below 0"),
        pytest.param(b"k1 65536 - -", id="a port too high"),
        pytest.param(b"k1 +80 - -", id="a port with a sign"),
        pytest.param(b"k1 80\n - -", id="a port with a line break"),
        pytest.param(b"k1 80 7.a.120.8 -", id="a persisted step without a run"),
        pytest.param(b"k1 80 - 7.a.120.8", id="a step without parts"),
        pytest.param(b"k1 80 - 7.a.120.8:", id="a step with no index"),
        pytest.param(b"k1 80 - 7.a.120.8:8", id="an index that the step does not have"),
        pytest.param(b"k1 80 - 7.a.120.8:0;", id="an empty step"),
        pytest.param(b"k1 80 - 7.a.120.8:0;7.a.120.8:1", id="a step twice"),
        pytest.param(b"k1 80 - 7.../../etc.120.8:0", id="a path"),
        pytest.param("k1 80 - 7.a.120.8:٠".encode(), id="a digit of another script"),
        pytest.param(b"k1 80 - " + b";".join(b"7.a.%d.1:0" % n for n in range(MAX_STEPS + 1)), id="too many steps"),
        pytest.param(b"k1 80 - 7.a.1.65536:" + b"0," * MAX_BYTES, id="too large"),
    ],
)
def test_anything_else_is_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_holdings(data)


@given(
    st.binary(max_size=80) | st.text("k1 -.:;,0123456789a", max_size=60).map(lambda text: b"k1 80 - " + text.encode())
)
@example(LINE[:-1])
def test_any_bytes_are_holdings_or_a_record_error(data: bytes) -> None:
    try:
        record = decode_holdings(data)
    except RecordError:
        return
    assert decode_holdings(encode_holdings(record)) == record


@given(st.integers(0, len(LINE) - 1), st.integers(0, 255))
def test_a_record_with_one_wrong_byte_is_holdings_or_a_record_error(at: int, byte: int) -> None:
    data = LINE[:at] + bytes([byte]) + LINE[at + 1 :]
    try:
        record = decode_holdings(data)
    except RecordError:
        return
    assert all(max(indices) < step.parts for step, indices in record.steps.items())
