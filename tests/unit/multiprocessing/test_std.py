"""Streams by name and by rank."""

import pickle

import pytest

from elasticjob_agent.multiprocessing import Std, to_map


def test_b_000_01_streams_are_read_from_a_digit_or_a_map() -> None:
    assert [Std.from_str(digit) for digit in "0123"] == [Std.NONE, Std.OUT, Std.ERR, Std.ALL]
    assert Std.from_str("0:3,1:0,2:1,3:2") == {0: Std.ALL, 1: Std.NONE, 2: Std.OUT, 3: Std.ERR}
    assert Std.from_str("10:1,11:2") == {10: Std.OUT, 11: Std.ERR}
    assert Std.from_str("1:1,1:2") == {1: Std.ERR}


BAD = ["", "4", "11", "-1", " 3", "3\n", "0:", "0:4", "0:1,", "0:1,1", "1,0:1", "a:1"]


@pytest.mark.parametrize("text", BAD)
def test_b_000_02_anything_else_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ValueError, match="names no streams") as caught:
        Std.from_str(text)
    assert repr(text) in str(caught.value)


def test_b_000_03_a_map_is_filled_and_cut() -> None:
    given = {0: Std.OUT, 5: Std.ERR}
    assert to_map(given, 2) == {0: Std.OUT, 1: Std.NONE}
    assert given == {0: Std.OUT, 5: Std.ERR}
    assert to_map(Std.ERR, 0) == {}
    assert to_map(3, 2) == {0: Std.ALL, 1: Std.ALL}
    assert to_map(Std.OUT, 1) == {0: Std.OUT}


@pytest.mark.parametrize("value", ["3", None, 4, -1, {0: "3"}])
def test_b_000_03_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"Std\.NONE"):
        to_map(value, 1)  # type: ignore[arg-type]


def test_streams_pickle() -> None:
    assert pickle.loads(pickle.dumps(Std.ALL)) is Std.ALL
