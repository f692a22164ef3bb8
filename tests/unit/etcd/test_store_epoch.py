"""When an answer means another store, and when it is merely late."""

import pytest

from elasticjob_etcd.errors import StoreReset
from elasticjob_etcd.store_epoch import Epoch, StoreEpochTracker

CLUSTER, OTHER = 0xA, 0xB


def known(revision: int) -> StoreEpochTracker:
    """Return a tracker that has observed `revision` of CLUSTER."""
    tracker = StoreEpochTracker()
    tracker.check(CLUSTER, revision, tracker.epoch())
    return tracker


def test_the_first_answer_is_taken_as_it_is() -> None:
    assert known(7).epoch() == Epoch(generation=0, revision=7)


def test_answers_that_overtook_each_other_are_no_wipe() -> None:
    tracker = known(7)
    slow, fast = tracker.epoch(), tracker.epoch()
    tracker.check(CLUSTER, 9, fast)
    tracker.check(CLUSTER, 8, slow)
    assert tracker.epoch().revision == 9


@pytest.mark.parametrize(("cluster_id", "revision"), [(CLUSTER, 6), (OTHER, 8)], ids=["older", "other cluster"])
def test_another_store_is_reported_once_and_then_accepted(cluster_id: int, revision: int) -> None:
    tracker = known(7)
    with pytest.raises(StoreReset):
        tracker.check(cluster_id, revision, tracker.epoch())
    tracker.check(cluster_id, revision, tracker.epoch())
    assert tracker.epoch().generation == 1


def test_every_call_in_flight_over_a_wipe_gets_the_error() -> None:
    tracker = known(7)
    first, second, third = (tracker.epoch() for _ in range(3))
    with pytest.raises(StoreReset):
        tracker.check(OTHER, 1, first)
    with pytest.raises(StoreReset):
        tracker.check(OTHER, 900, second)
    with pytest.raises(StoreReset):
        tracker.check(CLUSTER, 7, third)  # a late answer of the old store is not taken for the new one's
    tracker.check(OTHER, 2, tracker.epoch())


def test_a_stream_whose_member_lags_behind_is_no_wipe() -> None:
    tracker = known(7)
    tracker.check_cluster(CLUSTER, tracker.epoch())
    with pytest.raises(StoreReset):
        tracker.check_cluster(OTHER, tracker.epoch())


def test_what_was_watched_counts_as_known() -> None:
    tracker = known(7)
    tracker.observe(12)
    with pytest.raises(StoreReset, match="revision 11 after 12"):
        tracker.check(CLUSTER, 11, tracker.epoch())
