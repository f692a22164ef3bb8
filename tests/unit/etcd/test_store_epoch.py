"""When an answer means another store, and when it is merely late."""

import pytest

from elasticjob_etcd.errors import StoreReset
from elasticjob_etcd.store_epoch import Epoch, StoreEpochTracker

CLUSTER, OTHER = 0xA, 0xB


def known(revision: int) -> StoreEpochTracker:
    """An identity that has seen `revision` of CLUSTER."""
    identity = StoreEpochTracker()
    identity.check(CLUSTER, revision, identity.epoch())
    return identity


def test_the_first_answer_is_taken_as_it_is() -> None:
    assert known(7).epoch() == Epoch(generation=0, revision=7)


def test_answers_that_overtook_each_other_are_no_wipe() -> None:
    identity = known(7)
    slow, fast = identity.epoch(), identity.epoch()
    identity.check(CLUSTER, 9, fast)
    identity.check(CLUSTER, 8, slow)
    assert identity.epoch().revision == 9


@pytest.mark.parametrize(("cluster_id", "revision"), [(CLUSTER, 6), (OTHER, 8)], ids=["older", "other cluster"])
def test_another_store_is_reported_once_and_then_accepted(cluster_id: int, revision: int) -> None:
    identity = known(7)
    with pytest.raises(StoreReset):
        identity.check(cluster_id, revision, identity.epoch())
    identity.check(cluster_id, revision, identity.epoch())
    assert identity.epoch().generation == 1


def test_every_call_in_flight_over_a_wipe_gets_the_error() -> None:
    identity = known(7)
    first, second, third = (identity.epoch() for _ in range(3))
    with pytest.raises(StoreReset):
        identity.check(OTHER, 1, first)
    with pytest.raises(StoreReset):
        identity.check(OTHER, 900, second)
    with pytest.raises(StoreReset):
        identity.check(CLUSTER, 7, third)  # a late answer of the old store is not taken for the new one's
    identity.check(OTHER, 2, identity.epoch())


def test_a_stream_whose_member_lags_behind_is_no_wipe() -> None:
    identity = known(7)
    identity.check_cluster(CLUSTER, identity.epoch())
    with pytest.raises(StoreReset):
        identity.check_cluster(OTHER, identity.epoch())


def test_what_was_watched_counts_as_known() -> None:
    identity = known(7)
    identity.observe(12)
    with pytest.raises(StoreReset, match="revision 11 after 12"):
        identity.check(CLUSTER, 11, identity.epoch())
