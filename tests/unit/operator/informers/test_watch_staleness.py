"""When a watch counts as dead: what it should have told and what may still be on its way."""

from elasticjob_operator.informers.watch_staleness import DELIVERY_TIMEOUT_S, StalenessDetector
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent


def pod(name: str, version: int = 1) -> Object:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def told(*pods: Object, change: Change = Change.MODIFIED) -> StalenessDetector:
    freshness = StalenessDetector()
    for each in pods:
        freshness.delivered(ObjectEvent(change, each))
    return freshness


def test_what_was_told_is_not_missed() -> None:
    freshness = told(pod("a"))
    assert freshness.undelivered([pod("a")], 0.0) == []
    assert freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S) == []


def test_what_is_listed_for_long_and_never_told_is_missed() -> None:
    freshness = told(pod("a"))
    assert freshness.undelivered([pod("a"), pod("b")], 0.0) == []
    assert freshness.undelivered([pod("a"), pod("b")], DELIVERY_TIMEOUT_S - 1) == []
    assert freshness.undelivered([pod("a"), pod("b")], DELIVERY_TIMEOUT_S) == ["b"]


def test_a_change_that_was_never_told_is_missed() -> None:
    freshness = told(pod("a", version=1))
    freshness.undelivered([pod("a", version=2)], 0.0)
    assert freshness.undelivered([pod("a", version=2)], DELIVERY_TIMEOUT_S) == ["a"]


def test_an_object_that_goes_on_changing_and_is_told_a_little_late_is_not_missed() -> None:
    freshness = told(pod("a", version=0))
    for n in range(1, 5):
        assert freshness.undelivered([pod("a", version=n)], n * DELIVERY_TIMEOUT_S) == []
        freshness.delivered(ObjectEvent(Change.MODIFIED, pod("a", version=n)))


def test_an_object_that_goes_on_changing_and_is_never_told_is_missed() -> None:
    freshness = told(pod("a", version=0))
    assert freshness.undelivered([pod("a", version=1)], 0.0) == []
    assert freshness.undelivered([pod("a", version=2)], DELIVERY_TIMEOUT_S) == ["a"]


def test_there_is_doubt_while_nothing_was_told_of_what_a_list_has_missed() -> None:
    freshness = told(pod("a", version=1))
    freshness.undelivered([pod("a", version=2), pod("b")], 0.0)
    assert freshness.is_suspect()
    freshness.delivered(ObjectEvent(Change.ADDED, pod("b")))
    assert freshness.is_suspect()
    freshness.delivered(ObjectEvent(Change.MODIFIED, pod("a", version=2)))
    assert not freshness.is_suspect()


def test_what_is_told_at_last_is_not_missed() -> None:
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
    freshness = told(pod("a"))
    freshness.delivered(ObjectEvent(Change.DELETED, pod("a")))
    freshness.undelivered([pod("a")], 0.0)
    assert freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S) == ["a"]


def test_what_was_told_of_a_namespace_that_cannot_be_listed_stays_known() -> None:
    freshness = told(pod("a"))
    for _ in range(3):
        freshness.undelivered([], 0.0, {"default"})
    assert freshness.delivered_in({"default"}) == {"uid-a"}
    freshness.undelivered([pod("a")], 0.0)
    assert freshness.undelivered([pod("a")], DELIVERY_TIMEOUT_S) == []
