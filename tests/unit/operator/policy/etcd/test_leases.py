"""The leases that nothing uses: those without a key at two checks."""

from elasticjob_operator.policy.etcd.leases import CHECKS_PER_RECHECK, LeaseHistory, after_check, suspects


def leases(*ids: int) -> frozenset[int]:
    return frozenset(ids)


def test_a_lease_is_no_suspect_at_its_first_check() -> None:
    assert suspects(LeaseHistory(), leases(1)) == leases()
    assert suspects(after_check(LeaseHistory(), leases(1)), leases(1, 2)) == leases(1)


def test_a_lease_with_a_key_or_one_that_is_gone_is_no_suspect() -> None:
    known = LeaseHistory(leases=leases(1, 2, 3), with_keys=leases(2))
    assert suspects(known, leases(1, 2)) == leases(1)


def test_a_lease_that_had_a_key_is_checked_again_after_a_while() -> None:
    known = LeaseHistory(leases=leases(1), with_keys=leases(1))
    checks = 0
    while not suspects(known, leases(1)):
        known, checks = after_check(known, leases(1)), checks + 1
    assert checks == CHECKS_PER_RECHECK


def test_a_lease_that_is_gone_is_removed_from_the_history() -> None:
    known = after_check(LeaseHistory(leases=leases(1, 2), with_keys=leases(1, 2)), leases(2))
    assert (known.leases, known.with_keys) == (leases(2), leases(2))
