"""Keys, prefixes and requests as etcd wants them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_etcd.interface import Compare, Get, Put, Target, Txn, absent
from elasticjob_etcd.messages import encode_key, prefix_range, txn_request

# Text, and foreign bytes as they come back from a store.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
keys = texts | st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


def selects(prefix: str, key: bytes) -> bool:
    """Whether etcd's range of `prefix` holds `key`; an end of one zero byte is no end."""
    fields = prefix_range(prefix)
    return fields["key"] <= key and (fields["range_end"] == b"\0" or key < fields["range_end"])


@given(prefix=keys, key=keys.filter(bool))
def test_a_prefix_selects_exactly_the_keys_that_start_with_it(prefix: str, key: str) -> None:
    assert selects(prefix, encode_key(key)) == encode_key(key).startswith(encode_key(prefix))


@given(prefix=keys, rest=keys)
def test_a_prefix_selects_all_that_follows_it(prefix: str, rest: str) -> None:
    assert selects(prefix, encode_key(prefix) + encode_key(rest) + b"\0")


@given(st.binary())
def test_a_foreign_key_survives_being_read_and_sent_again(raw: bytes) -> None:
    assert encode_key(raw.decode("utf-8", "surrogateescape")) == raw


def test_a_transaction_that_only_compares_reads_so_that_its_answer_is_never_stale() -> None:
    request = txn_request(Txn((absent("a"),), ()))
    assert [op.request_range.key for op in (*request.success, *request.failure)] == [b"a", b"a"]
    assert not txn_request(Txn((absent("a"),), (Put("a", b""),))).failure
    assert [op.request_range.key for op in txn_request(Txn((), (Get("b"),))).success] == [b"b"]


@pytest.mark.parametrize("compare", [Compare("a", Target.MOD, b"1"), Compare("a", Target.VALUE, 1)])
def test_a_comparison_with_the_wrong_type_is_a_mistake_in_the_program(compare: Compare) -> None:
    with pytest.raises(TypeError, match="compare of a by"):
        txn_request(Txn((compare,), ()))
