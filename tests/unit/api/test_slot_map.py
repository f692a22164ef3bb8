"""The compact form of the slot map: whatever the names are, and refused when it is none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api import slot_map
from elasticjob_api.errors import CodecError

POD = st.from_regex(r"[a-z]([-a-z0-9]{0,12}[a-z0-9])?", fullmatch=True)
NAMES = st.one_of(POD, st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
"""A stray surrogate is no text of a cluster's."""


@st.composite
def owners(draw: st.DrawFn) -> list[slot_map.Owner]:
    slots = draw(st.lists(st.integers(0, 65535), unique=True, max_size=8))
    form = st.sampled_from(["{name}-{slot}-{suffix}", "{name}-{slot}", "{name}", "-{slot}", "{slot}={name}"])
    return [(slot, draw(form).format(name=draw(NAMES), slot=slot, suffix=draw(NAMES)), draw(NAMES)) for slot in slots]


@given(owners())
def test_every_map_comes_back_as_it_was(given_: list[slot_map.Owner]) -> None:
    assert sorted(slot_map.unpack(slot_map.pack(given_), "slots")) == sorted(given_)


def test_a_name_costs_its_own_letters_alone() -> None:
    map_ = [(0, "train-0-x7k2p", "rack-a"), (2, "train-2-m4c8z", "rack-b"), (10, "train-10-9dwq4", "rack-a")]
    assert slot_map.pack(map_) == {"train": {"rack-a": "0-x7k2p 10-9dwq4", "rack-b": "2-m4c8z"}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["0-a"], r"^slots: \['0-a'\] is not an object"),
        ({"train": "0-a"}, r"^slots\.train: '0-a' is not an object"),
        ({"train": {"": 7}}, r"^slots\.train: 7 is not the names of pods"),
        ({"train": {"": "0-a  1-b"}}, "^slots: '' does not begin with a slot"),
        ({"train": {"": "00-a"}}, "^slots: '00-a' does not begin with a slot"),
        ({"train": {"": "-1-a"}}, "^slots: '-1-a' does not begin with a slot"),
        ({"train": {"": "²=a"}}, "^slots: '²=a' does not begin with a slot"),
        ({"train": {"": "9999999999999=a"}}, "does not begin with a slot"),
        ({"train": {"": "65536-a"}}, "^slots: '65536-a' begins with 65536; slots are below 65536"),
        ({"x" * 513: {"": "0-a 1-a"}}, "^slots: 'x+… has 513 characters; names of pods are shorter"),
    ],
)
def test_anything_else_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        list(slot_map.unpack(value, "slots"))
