"""The leader's clocks: since when each condition is true, by its own monotonic clock and its own views."""

from elasticjob_agent.rendezvous.leader.observations import ObservationClock
from elasticjob_api.rendezvous_state import Cause
from tests.unit.rendezvous.views import ViewBuilder, view_builder

LEASE_S = view_builder().build().spec.keep_alive_s  # type: ignore[union-attr]


def test_the_clock_of_a_round_starts_when_this_leader_first_sees_it() -> None:
    sightings, job = ObservationClock(), view_builder().nodes(0, 1)
    assert sightings.update(job.forming(2).build(), 10.0).forming_since_s == 10.0
    assert sightings.update(job.build(), 15.0).forming_since_s == 10.0


def test_a_verdict_in_the_round_does_not_reset_its_clock() -> None:
    sightings, job = ObservationClock(), view_builder().nodes(0, 1)
    sightings.update(job.forming(2).build(), 10.0)
    assert sightings.update(job.forming(2, has_verdict=True, nonce="other").build(), 15.0).forming_since_s == 10.0


def test_the_next_round_has_its_own_clock() -> None:
    sightings, job = ObservationClock(), view_builder().nodes(0, 1)
    sightings.update(job.forming(2).build(), 10.0)
    sightings.update(job.active(2, 0, 1).build(), 12.0)
    assert sightings.update(job.forming(3).build(), 20.0).forming_since_s == 20.0


def test_a_new_node_key_is_recorded_and_a_change_of_a_known_one_is_not() -> None:
    sightings, job = ObservationClock(), view_builder().nodes(0).forming(1)
    assert sightings.update(job.build(), 1.0).newest_key_s == 1.0
    assert sightings.update(job.node(0, ready=1).build(), 2.0).newest_key_s == 1.0
    assert sightings.update(job.node(1).build(), 3.0).newest_key_s == 3.0
    assert sightings.update(job.lost(1).build(), 4.0).newest_key_s == 3.0
    assert sightings.update(job.node(1, incarnation="f" * 8).build(), 5.0).newest_key_s == 5.0


def test_the_clock_of_enough_nodes_starts_again_after_too_few() -> None:
    sightings, job = ObservationClock(), view_builder(2, 3).nodes(0).forming(1)
    assert sightings.update(job.build(), 1.0).enough_since_s is None
    assert sightings.update(job.nodes(1).build(), 2.0).enough_since_s == 2.0
    assert sightings.update(job.build(), 3.0).enough_since_s == 2.0
    assert sightings.update(job.lost(1).build(), 4.0).enough_since_s is None
    assert sightings.update(job.nodes(1).build(), 5.0).enough_since_s == 5.0


def test_the_clock_of_a_joiner_starts_at_its_key_and_again_in_each_round() -> None:
    sightings, job = ObservationClock(), view_builder(1, 5).nodes(0, 1).active(1, 0, 1)
    assert sightings.update(job.build(), 1.0).joiner_since_s is None
    assert sightings.update(job.nodes(2).build(), 2.0).joiner_since_s == 2.0
    assert sightings.update(job.nodes(3).build(), 3.0).joiner_since_s == 2.0
    assert sightings.update(job.forming(2).build(), 4.0).joiner_since_s is None


def test_a_spare_that_no_round_would_include_is_no_joiner() -> None:
    sightings = ObservationClock()
    assert sightings.update(view_builder(1, 2).nodes(0, 1, 2).active(1, 0, 1).build(), 1.0).joiner_since_s is None


def test_without_spec_or_state_only_the_time_is_known() -> None:
    observations = ObservationClock().update(view_builder().no_spec().build(), 7.0)
    assert (observations.now_s, observations.enough_since_s, observations.joiner_since_s) == (7.0, None, None)


def settle_until_s(*views: ViewBuilder, has_predecessor: bool = False) -> float:
    sightings, until_s = ObservationClock(has_predecessor=has_predecessor), 0.0
    for view in views:
        until_s = sightings.update(view.build(), 10.0).settle_until_s
    return until_s


def test_a_first_leader_that_meets_a_round_as_the_first_version_of_its_key_waits_for_those_that_know_it() -> None:
    """A job begins with a round that forms, so another agent has written this one back after a wipe."""
    assert settle_until_s(view_builder().nodes(0).active(5, 0, 1)) == 10.0 + LEASE_S
    assert settle_until_s(view_builder().nodes(0).forming(5, cause=Cause.NODE_LOST)) == 10.0 + LEASE_S


def test_the_first_round_and_a_round_that_followed_another_show_no_wipe() -> None:
    assert settle_until_s(view_builder().nodes(0).forming(1, cause=Cause.FIRST)) == 0.0
    assert settle_until_s(view_builder().nodes(0).forming(1, cause=Cause.FIRST).active(1, 0, 1)) == 0.0


def test_a_leader_with_a_predecessor_in_this_etcd_does_not_wait_again() -> None:
    assert settle_until_s(view_builder().nodes(0).active(5, 0, 1), has_predecessor=True) == 0.0


def test_a_round_that_this_leader_cannot_have_missed_was_written_back() -> None:
    job = view_builder().nodes(0).forming(1, cause=Cause.FIRST)
    sightings = ObservationClock()
    sightings.update(job.build(), 10.0)
    assert sightings.update(job.active(5, 0, 1).build(), 12.0).settle_until_s == 12.0 + LEASE_S


def test_rounds_one_by_one_show_no_wipe() -> None:
    job, sightings = view_builder().nodes(0, 1), ObservationClock()
    for number in (1, 2, 3):
        assert sightings.update(job.forming(number, cause=Cause.FIRST).build(), 12.0).settle_until_s == 0.0
        assert sightings.update(job.active(number, 0, 1).build(), 12.0).settle_until_s == 0.0
