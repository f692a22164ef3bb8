"""PURE: the operator's transactions, each with the comparisons that make it safe to be late or repeated.

Every write of the spec compares the spec's and the world's mod_revision as planned from; the plan never writes
after a final world. So the history of the spec is a chain, whichever process died in between.
"""

from elasticjob_api.keys import Keys
from elasticjob_api.records import ExpectedSlots, encode
from elasticjob_api.rendezvous_state import encode_state
from elasticjob_etcd.interface import Compare, Delete, Op, Put, Txn, absent, unchanged
from elasticjob_operator.model.actions import WriteExpected, WriteSpec
from elasticjob_operator.policy.slots.eviction import Eviction


def write_spec(keys: Keys, action: WriteSpec) -> Txn:
    """The spec, with the world and the expected slots that belong to it."""
    puts: list[Op] = [Put(keys.spec, encode(action.record))]
    if action.world is not None:
        puts.append(Put(keys.rendezvous_state, encode_state(action.world)))
    if action.expected is not None:
        puts.append(_put_expected(keys, action.expected))
    compares = (unchanged(keys.spec, action.spec_revision), unchanged(keys.rendezvous_state, action.world_revision))
    return Txn(compares, tuple(puts))


def write_expected(keys: Keys, action: WriteExpected) -> Txn:
    """The expected slots; compared with the spec so that a deleted job's keys never come back."""
    return Txn((unchanged(keys.spec, action.spec_revision),), (_put_expected(keys, action.slots),))


def write_tombstone(keys: Keys, eviction: Eviction) -> Txn:
    """The proof that a stay has ended, unless one is there; the lease is revoked after it."""
    key = keys.tombstone(eviction.member.slot, eviction.member.incarnation)
    compares: tuple[Compare, ...] = () if eviction.overwrite else (absent(key),)
    return Txn(compares, (Put(key, encode(eviction.tombstone)),))


def delete_prefix(keys: Keys) -> Txn:
    """Every key of the job."""
    return Txn((), (Delete(keys.everything, prefix=True),))


def _put_expected(keys: Keys, slots: frozenset[int]) -> Put:
    return Put(keys.expected, encode(ExpectedSlots(tuple(sorted(slots)))))
