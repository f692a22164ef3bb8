"""The operator's transactions, each with the comparisons that make a late or repeated one harmless.

Every write of the spec compares the revisions of spec and rendezvous state with those of the plan's snapshot. The plan
never writes after a final state. So each spec follows from the one before, even if a process ends in between.
"""

from elasticjob_api.keys import Keys
from elasticjob_api.records import ExpectedSlots, encode
from elasticjob_api.rendezvous_state import encode_state
from elasticjob_etcd.interface import Compare, Delete, Op, Put, Txn, absent, unchanged
from elasticjob_operator.model.actions import Evict, WriteExpected, WriteSpec


def write_spec(keys: Keys, action: WriteSpec, import_profile: bytes | None = None) -> Txn:
    """Return the write of a spec, with the rendezvous state and the expected slots that belong to it.

    The first spec of a job may come with the `import_profile` of an earlier one.
    """
    puts: list[Op] = [Put(keys.spec, encode(action.record))]
    if action.state is not None:
        puts.append(Put(keys.rendezvous_state, encode_state(action.state)))
    if action.expected is not None:
        puts.append(_put_expected(keys, action.expected))
    if import_profile is not None:
        puts.append(Put(keys.earlier_import_profile, import_profile))
    compares = (unchanged(keys.spec, action.spec_revision), unchanged(keys.rendezvous_state, action.state_revision))
    return Txn(compares, tuple(puts))


def write_expected(keys: Keys, action: WriteExpected) -> Txn:
    """Return the write of the expected slots."""
    # The comparison with the spec keeps the keys of a deleted job from being created again.
    return Txn((unchanged(keys.spec, action.spec_revision),), (_put_expected(keys, action.slots),))


def write_tombstone(keys: Keys, action: Evict) -> Txn:
    """Return the write of a tombstone for an incarnation, unless it has one; the lease is revoked afterwards."""
    key = keys.tombstone(action.member.slot, action.member.incarnation)
    compares: tuple[Compare, ...] = () if action.overwrite else (absent(key),)
    return Txn(compares, (Put(key, encode(action.tombstone)),))


def delete_prefix(keys: Keys) -> Txn:
    """Return the deletion of every key of the job."""
    return Txn((), (Delete(keys.everything, prefix=True),))


def _put_expected(keys: Keys, slots: frozenset[int]) -> Put:
    return Put(keys.expected, encode(ExpectedSlots(tuple(sorted(slots)))))
