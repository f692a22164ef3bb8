"""The fields of a commit channel about the shared directory: read as written, and absent for older keepers."""

import json

from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.rules.persisting import PersistAnnouncement, PersistOrder
from elasticjob_agent.keep.transfer.commit_frames import (
    decode_announcement,
    decode_safe_point,
    encode_announcement,
    encode_safe_point,
)
from testing.kept_steps import kept_steps, lineages, persisted_steps

ANNOUNCED = st.builds(
    PersistAnnouncement,
    st.text("0123456789abcdef", max_size=16),
    st.none() | persisted_steps,
    st.booleans(),
    st.booleans(),
)
ORDERS = st.builds(PersistOrder, kept_steps, st.text(max_size=50), st.integers(0, 1 << 50))


@given(st.builds(Announcement, lineage=lineages, held=st.just({}), persist=st.none() | ANNOUNCED))
def test_an_announcement_is_read_as_it_was_written(announcement: Announcement) -> None:
    assert decode_announcement(encode_announcement(announcement)) == announcement


MAYBE = st.none() | persisted_steps


@given(st.builds(SafePoint, lineages, order=st.none() | ORDERS, persisted=MAYBE, found=MAYBE))
def test_an_order_is_read_as_it_was_written(point: SafePoint) -> None:
    assert decode_safe_point(encode_safe_point(point)) == point


@given(st.builds(SafePoint, lineages, order=ORDERS, persisted=persisted_steps))
def test_a_keeper_that_does_not_know_the_fields_reads_the_rest(point: SafePoint) -> None:
    word, _, text = encode_safe_point(point).partition(b" ")
    fields = json.loads(text)
    newer = {f"newer{name}": value for name, value in fields.items() if name in {"order", "persisted"}}
    known = {name: value for name, value in fields.items() if name not in {"order", "persisted"}}
    assert decode_safe_point(word + b" " + json.dumps({**known, **newer}).encode()) == SafePoint(point.lineage)
