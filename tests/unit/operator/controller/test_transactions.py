"""The operator's transactions: their comparisons and writes, which make a late or repeated one harmless."""

from elasticjob_api.keys import Keys
from elasticjob_api.records import ExpectedSlots, SpecRecord, Tombstone, TombstoneReason, decode
from elasticjob_api.rendezvous_state import RoundPhase, decode_state
from elasticjob_etcd.interface import Delete, Put, Txn, absent, unchanged
from elasticjob_operator.controller import transactions
from elasticjob_operator.model.actions import Evict, WriteExpected, WriteSpec
from testing.builders import member, record, state

KEYS = Keys("/elasticjob/c/ns/j/u")
WRITE = WriteSpec(record=record(0), spec_revision=5, state_revision=6)


def puts(txn: Txn) -> dict[str, bytes]:
    return {op.key: op.value for op in txn.success if isinstance(op, Put)}


def test_a_write_of_the_spec_compares_the_planned_revisions_of_spec_and_state() -> None:
    assert transactions.write_spec(KEYS, WRITE).compares == (
        unchanged(KEYS.spec, 5),
        unchanged(KEYS.rendezvous_state, 6),
    )


def test_a_first_write_compares_that_neither_spec_nor_state_exists() -> None:
    first = WriteSpec(record=record(0), spec_revision=0, state_revision=0)
    # A mod_revision of 0 is that of no key.
    assert transactions.write_spec(KEYS, first).compares == (
        unchanged(KEYS.spec, 0),
        unchanged(KEYS.rendezvous_state, 0),
    )


def test_a_write_of_the_spec_alone_writes_no_other_key() -> None:
    written = puts(transactions.write_spec(KEYS, WRITE))
    assert {key: decode(SpecRecord, value) for key, value in written.items()} == {KEYS.spec: record(0)}


def test_spec_state_and_expected_are_written_in_one_transaction() -> None:
    suspended = state(RoundPhase.SUSPENDED)
    action = WriteSpec(
        record=record(0), spec_revision=5, state_revision=6, state=suspended, expected=frozenset({2, 0})
    )  # fmt: skip
    written = puts(transactions.write_spec(KEYS, action))
    assert decode_state(written[KEYS.rendezvous_state]) == suspended
    assert decode(ExpectedSlots, written[KEYS.expected]) == ExpectedSlots((0, 2))


def test_expected_slots_are_not_written_for_a_changed_or_deleted_spec() -> None:
    txn = transactions.write_expected(KEYS, WriteExpected(frozenset({1}), 5))
    assert txn.compares == (unchanged(KEYS.spec, 5),)
    assert decode(ExpectedSlots, puts(txn)[KEYS.expected]) == ExpectedSlots((1,))


def test_a_tombstone_is_written_only_if_there_is_none() -> None:
    key, gone = KEYS.tombstone(3, member(3).incarnation), Tombstone(TombstoneReason.POD_DELETED, "why")
    txn = transactions.write_tombstone(KEYS, Evict(member(3), 7, gone))
    assert txn.compares == (absent(key),)
    assert {name: decode(Tombstone, value) for name, value in puts(txn).items()} == {key: gone}


def test_a_more_specific_tombstone_overwrites() -> None:
    gone = Tombstone(TombstoneReason.POD_FAILED)
    assert transactions.write_tombstone(KEYS, Evict(member(3), 7, gone, overwrite=True)).compares == ()


def test_a_deletion_removes_all_keys_of_the_job_and_none_of_a_longer_uid() -> None:
    (op,) = transactions.delete_prefix(KEYS).success
    assert isinstance(op, Delete)
    assert op.prefix
    assert KEYS.spec.startswith(op.key)
    assert not Keys("/elasticjob/c/ns/j/u2").spec.startswith(op.key)
