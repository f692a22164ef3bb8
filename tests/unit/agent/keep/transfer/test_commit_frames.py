"""Messages of a commit channel: there and back, and a hostile one is refused with an error."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.transfer.commit_frames import (
    MAX_PARTS,
    MAX_STEPS,
    decode_announcement,
    decode_safe_point,
    encode_announcement,
    encode_safe_point,
)
from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_api.kept_steps import PART_LIMIT, KeptStep, Lineage
from testing.kept_steps import kept_steps, lineages

LINEAGE = Lineage(7, "ab")
STEP = KeptStep(LINEAGE, 120, 8)

announcements = st.builds(
    Announcement,
    lineage=lineages,
    held=st.dictionaries(kept_steps, st.just(frozenset({0})), max_size=5),
    committed=st.none() | kept_steps,
    oldest_uncommitted=st.none() | kept_steps,
    is_settled=st.booleans(),
    is_restored=st.booleans(),
    is_overdue=st.booleans(),
)


@given(announcements)
def test_an_announcement_is_read_as_it_was_sent(announcement: Announcement) -> None:
    assert decode_announcement(encode_announcement(announcement)) == announcement


@given(st.builds(SafePoint, lineages, st.none() | kept_steps, st.none() | kept_steps))
def test_a_safe_point_is_read_as_it_was_sent(point: SafePoint) -> None:
    assert decode_safe_point(encode_safe_point(point)) == point


def test_the_form_of_both() -> None:
    announcement = Announcement(lineage=LINEAGE, held={STEP: frozenset({0, 1, 5})}, oldest_uncommitted=STEP)
    assert encode_announcement(announcement) == (
        b'AT {"lineage":"7.ab","held":["7.ab.120.8:0-1,5"],"oldestUncommitted":"7.ab.120.8"}'
    )
    assert encode_safe_point(SafePoint(LINEAGE, None, STEP)) == b'SAFE {"lineage":"7.ab","floor":"7.ab.120.8"}'


def test_the_oldest_steps_are_left_out_if_there_are_too_many() -> None:
    held = {KeptStep(LINEAGE, number, 1): frozenset({0}) for number in range(MAX_STEPS + 5)}
    found = decode_announcement(encode_announcement(Announcement(lineage=LINEAGE, held=held))).held
    assert sorted(step.number for step in found) == list(range(5, MAX_STEPS + 5))


def test_the_oldest_steps_are_left_out_if_they_have_too_many_parts() -> None:
    held = {KeptStep(LINEAGE, number, PART_LIMIT): frozenset(range(PART_LIMIT)) for number in range(5)}
    found = decode_announcement(encode_announcement(Announcement(lineage=LINEAGE, held=held))).held
    assert [step.number for step in found] == [1, 2, 3, 4]
    assert sum(map(len, found.values())) == MAX_PARTS


def test_announcements_of_many_parts_need_little_memory_however_many_come() -> None:
    tracemalloc.start()
    try:
        for number in range(8):
            first = [number * 16 + 2 + n for n in range(4)]
            held = [f"7.ab.{n}.{PART_LIMIT}:0,{first[n]}-{PART_LIMIT - 1}" for n in range(4)]
            decode_announcement(b"AT " + json.dumps({"lineage": "7.ab", "held": held}).encode())
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 110 << 20


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"lineage": "7.ab"},
        {"lineage": 7, "held": []},
        {"lineage": "7./", "held": []},
        {"lineage": "7.ab", "held": {}},
        {"lineage": "7.ab", "held": [1]},
        {"lineage": "7.ab", "held": ["7.ab.1.1:1"]},
        {"lineage": "7.ab", "held": ["7.ab.1.1:"]},
        {"lineage": "7.ab", "held": ["7.ab.1.70000:0"]},
        {"lineage": "7.ab", "held": ["7.ab.1.3:1,0"]},
        {"lineage": "7.ab", "held": ["7.ab.1.3:0,0"]},
        {"lineage": "7.ab", "held": ["7.ab.1.3:0-1,1-2"]},
        {"lineage": "7.ab", "held": ["7.ab.1.3:2-0"]},
        {"lineage": "7.ab", "held": ["7.ab.1.3:-1"]},
        {"lineage": "7.ab", "held": [f"7.ab.{number}.{PART_LIMIT}:0-{PART_LIMIT - 1}" for number in range(5)]},
        {"lineage": "7.ab", "held": [f"7.ab.{number}.1:0" for number in range(MAX_STEPS + 1)]},
        {"lineage": "7.ab", "held": [], "committed": "newest"},
        {"lineage": "7.ab", "held": [], "isSettled": 1},
        {"lineage": "7.ab", "held": ["x" * 70_000]},
    ],
)
def test_an_announcement_that_no_keeper_sends_is_refused(value: Any) -> None:
    with pytest.raises(FrameError):
        decode_announcement(b"AT " + json.dumps(value).encode())


@pytest.mark.parametrize(
    "data", [b"", b"AT {}", b"SAFE", b"SAFE {}", b'SAFE {"lineage":"7.ab","floor":1}', b"SAFE NaN"]
)
def test_a_safe_point_that_no_leader_sends_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode_safe_point(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    for decode in (decode_announcement, decode_safe_point):
        with pytest.raises(FrameError):
            decode(data)
