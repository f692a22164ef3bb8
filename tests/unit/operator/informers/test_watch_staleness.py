"""Detection of a stale watch: changes that it should have delivered, and changes that may still arrive."""

from elasticjob_operator.informers.watch_staleness import DELIVERY_TIMEOUT_S, StalenessDetector
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent


def pod(name: str, version: int = 1) -> Object:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def delivered(*pods: Object, change: Change = Change.MODIFIED) -> StalenessDetector:
    freshness = StalenessDetector()
    for each in pods:
        freshness.delivered(ObjectEvent(change, each))
    return freshness


def test_a_delivered_object_is_not_missing() -> None:
    freshness = delivered(pod("a"))
    assert freshness.undelivered([pod("a")], 0.0) == []
    assert freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S) == []


def test_an_object_that_is_listed_for_long_and_never_delivered_is_missing() -> None:
    freshness = delivered(pod("a"))
    assert freshness.undelivered([pod("a"), pod("b")], 0.0) == []
    assert freshness.undelivered([pod("a"), pod("b")], DELIVERY_TIMEOUT_S - 1) == []
    assert freshness.undelivered([pod("a"), pod("b")], DELIVERY_TIMEOUT_S) == ["b"]


def test_a_change_that_was_never_delivered_is_missing() -> None:
    freshness = delivered(pod("a", version=1))
    freshness.undelivered([pod("a", version=2)], 0.0)
    assert freshness.undelivered([pod("a", version=2)], DELIVERY_TIMEOUT_S) == ["a"]


def test_a_changing_object_that_is_delivered_a_little_late_is_not_missing() -> None:
    freshness = delivered(pod("a", version=0))
    for n in range(1, 5):
        assert freshness.undelivered([pod("a", version=n)], n * DELIVERY_TIMEOUT_S) == []
        freshness.delivered(ObjectEvent(Change.MODIFIED, pod("a", version=n)))


def test_a_changing_object_that_is_never_delivered_is_missing() -> None:
    freshness = delivered(pod("a", version=0))
    assert freshness.undelivered([pod("a", version=1)], 0.0) == []
    assert freshness.undelivered([pod("a", version=2)], DELIVERY_TIMEOUT_S) == ["a"]


def test_the_watch_is_suspect_until_it_delivers_the_missing_object() -> None:
    freshness = delivered(pod("a", version=1))
    freshness.undelivered([pod("a", version=2), pod("b")], 0.0)
    assert freshness.is_suspect()
    freshness.delivered(ObjectEvent(Change.ADDED, pod("b")))
    assert freshness.is_suspect()
    freshness.delivered(ObjectEvent(Change.MODIFIED, pod("a", version=2)))
    assert not freshness.is_suspect()


def test_an_object_that_is_delivered_late_is_not_missing() -> None:
    freshness = StalenessDetector()
    freshness.undelivered([pod("a")], 0.0)
    freshness.delivered(ObjectEvent(Change.MODIFIED, pod("a")))
    assert freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S) == []


def test_an_object_created_just_after_a_list_stays_known() -> None:
    freshness = StalenessDetector()
    freshness.delivered(ObjectEvent(Change.ADDED, pod("a")))
    freshness.undelivered([], 0.0)
    freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S)
    assert freshness.undelivered([pod("a")], 2 * DELIVERY_TIMEOUT_S) == []


def test_a_deleted_object_is_forgotten() -> None:
    freshness = delivered(pod("a"))
    freshness.delivered(ObjectEvent(Change.DELETED, pod("a")))
    freshness.undelivered([pod("a")], 0.0)
    assert freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S) == ["a"]


def test_objects_of_a_namespace_that_cannot_be_listed_stay_known() -> None:
    freshness = delivered(pod("a"))
    for _ in range(3):
        freshness.undelivered([], 0.0, {"default"})
    assert freshness.delivered_in({"default"}) == {"uid-a"}
    freshness.undelivered([pod("a")], 0.0)
    assert freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S) == []
