"""Which leases of etcd are nobody's: those without a key at two looks."""

from elasticjob_operator.policy.etcd.leases import CHECKS_PER_RECHECK, LeaseHistory, after_check, suspects


def leases(*ids: int) -> frozenset[int]:
    return frozenset(ids)


def test_a_lease_is_no_suspect_when_it_is_seen_first() -> None:
    assert suspects(LeaseHistory(), leases(1)) == leases()
    assert suspects(after_check(LeaseHistory(), leases(1)), leases(1, 2)) == leases(1)


def test_one_that_has_a_key_or_is_gone_is_no_suspect() -> None:
    known = LeaseHistory(leases=leases(1, 2, 3), with_keys=leases(2))
    assert suspects(known, leases(1, 2)) == leases(1)


def test_one_that_had_a_key_is_looked_at_again_after_a_while() -> None:
    known = LeaseHistory(leases=leases(1), with_keys=leases(1))
    looks = 0
    while not suspects(known, leases(1)):
        known, looks = after_check(known, leases(1)), looks + 1
    assert looks == CHECKS_PER_RECHECK


def test_what_is_gone_is_forgotten() -> None:
    known = after_check(LeaseHistory(leases=leases(1, 2), with_keys=leases(1, 2)), leases(2))
    assert (known.leases, known.with_keys) == (leases(2), leases(2))
