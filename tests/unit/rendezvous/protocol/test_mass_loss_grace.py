"""Who counts as silent, when so many are waited for, and that it happens once."""

import pytest

from elasticjob_agent.rendezvous.leader.observations import ObservationClock
from elasticjob_agent.rendezvous.protocol import mass_loss_grace
from elasticjob_agent.rendezvous.protocol.leader_plan import Decision, Wait, WriteWorld, plan
from elasticjob_agent.rendezvous.protocol.mass_loss_grace import MIN_GRACE_S, LossGrace, LossGraceTimer
from elasticjob_api.records import TombstoneReason
from elasticjob_api.rendezvous_state import Cause, Member, RoundPhase
from tests.unit.rendezvous.views import ViewBuilder, a_node, member, view_builder


def running(count: int = 4, **spec: object) -> ViewBuilder:
    """Round 1 runs in the first `count` slots."""
    return view_builder(1, count, **spec).nodes(*range(count), ready=1).active(1, *range(count))


def silent(job: ViewBuilder) -> list[int]:
    known = {member(slot): a_node(slot) for slot in range(8)}
    return sorted(who.slot for who in mass_loss_grace.unreachable_members(job.build(), known))


def owned(job: ViewBuilder) -> ViewBuilder:
    return job.owned_by(s0="pod-0", s1="pod-1", s2="pod-2", s3="pod-3")


@pytest.mark.parametrize(
    ("job", "slots"),
    [
        pytest.param(running(), [], id="all are here"),
        pytest.param(running().lost(1).lost(2), [1, 2], id="keys are gone"),
        pytest.param(running().lost(1).tombstone(1, TombstoneReason.REFUSED), [], id="proved gone"),
        pytest.param(running().lost(1).tombstone(1, TombstoneReason.LEFT), [], id="it left"),
        pytest.param(running().lost(1).completion(1, 1), [], id="it had finished"),
        pytest.param(running().lost(1).node(7, incarnation="f" * 8, pod="pod-1"), [], id="it is back in any slot"),
        pytest.param(running().lost(1).node(1, incarnation="f" * 8, pod="pod-9"), [1], id="another has its slot"),
        pytest.param(owned(running()).lost(1), [1], id="its slot still is its pod's"),
        pytest.param(
            running().lost(1).owned_by(s0="pod-0", s1="pod-9", s2="pod-2", s3="pod-3"), [], id="its slot is another's"
        ),
        pytest.param(running().lost(1).owned_by(s0="pod-0", s2="pod-2"), [], id="its slot is nobody's"),
        pytest.param(running().lost(1).no_spec(), [], id="without a spec"),
        pytest.param(view_builder().nodes(0), [], id="before the first round"),
    ],
)
def test_silent(job: ViewBuilder, slots: list[int]) -> None:
    assert silent(job) == slots


def test_who_was_never_seen_is_back_if_its_slot_has_a_key() -> None:
    assert mass_loss_grace.unreachable_members(running().lost(1).build(), {}) == {member(1)}
    assert (
        mass_loss_grace.unreachable_members(running().lost(1).node(1, incarnation="f" * 8).build(), {}) == frozenset()
    )


@pytest.mark.parametrize(
    ("slots", "hosts", "suspicious"),
    [
        pytest.param([1], {}, False, id="one"),
        pytest.param([1, 2], {}, True, id="two of four"),
        pytest.param([1, 2], {1: "a", 2: "a"}, False, id="two on one host"),
        pytest.param([1, 2, 3], {1: "a", 2: "a", 3: "b"}, True, id="three on two hosts"),
    ],
)
def test_suspicious(slots: list[int], hosts: dict[int, str], suspicious: bool) -> None:  # noqa: FBT001 -- a column
    known = {member(slot): a_node(slot, host=hosts.get(slot, f"host-{slot}")) for slot in range(4)}
    who = frozenset(member(slot) for slot in slots)
    assert mass_loss_grace.is_mass_loss(running().build(), who, known) is suspicious


def test_a_few_of_many_are_not_suspicious_and_three_in_ten_are() -> None:
    view = running(10).build()
    assert not mass_loss_grace.is_mass_loss(view, frozenset({member(0), member(1)}), {})
    assert mass_loss_grace.is_mass_loss(view, frozenset({member(0), member(1), member(2)}), {})


def test_a_hold_lasts_a_lease_period_and_no_less_than_six_seconds() -> None:
    two = running().lost(1).lost(2)
    assert LossGraceTimer().update(two.build(), 100.0).until_s == 100.0 + MIN_GRACE_S
    assert LossGraceTimer().update(two.spec(keep_alive_s=20.0).build(), 100.0).until_s == 120.0


def test_it_ends_with_proof_and_is_not_begun_anew_by_the_next_silence() -> None:
    clock, job = LossGraceTimer(), running()
    clock.update(job.build(), 0.0)
    assert clock.update(job.lost(1).lost(2).build(), 10.0).until_s == 16.0
    assert clock.update(job.tombstone(1, TombstoneReason.REFUSED).build(), 12.0) == LossGrace()
    assert clock.update(job.lost(3).build(), 13.0) == LossGrace(frozenset({member(2), member(3)}), 16.0)
    assert clock.update(job.build(), 16.0) == LossGrace(is_over=True)


def test_a_membership_whose_members_all_came_back_may_be_held_again() -> None:
    clock = LossGraceTimer()
    clock.update(running().lost(1).lost(2).build(), 0.0)
    assert clock.update(running().build(), 3.0) == LossGrace()
    assert clock.update(running().build(), 90.0) == LossGrace()
    assert clock.update(running().lost(2).lost(3).build(), 100.0).until_s == 106.0


def test_another_membership_may_be_held_again() -> None:
    clock = LossGraceTimer()
    clock.update(running().lost(1).lost(2).build(), 0.0)
    later = view_builder(1, 4).nodes(0, ready=2).active(2, 0, 1, 2)
    assert clock.update(later.build(), 50.0).until_s == 56.0


def test_a_later_closer_does_not_repeat_it() -> None:
    assert (
        LossGraceTimer().update(running().lost(1).lost(2).forming(2, loss_grace_spent=True).build(), 0.0) == LossGrace()
    )


def test_a_hold_ends_when_a_world_is_written_back_that_says_it_has_been_waited() -> None:
    clock, job = LossGraceTimer(), running().lost(1).lost(2).forming(2)
    assert (
        clock.update(job.build(), 0.0).until_s == MIN_GRACE_S
    )  # etcd was wiped, and has no word yet of the hold before
    assert clock.update(job.forming(2, loss_grace_spent=True).build(), 1.0) == LossGrace()


# What the closer does meanwhile.


def act(job: ViewBuilder, now_s: float, sightings: ObservationClock) -> Decision:
    view = job.build()
    return plan(view, sightings.update(view, now_s), "fresh")


def test_nothing_is_opened_on_their_account_until_it_is_over_and_then_the_world_says_so() -> None:
    sightings, job = ObservationClock(), running()
    act(job, 0.0, sightings)
    waiting = act(job.lost(1).lost(2), 10.0, sightings)
    assert waiting == Wait(16.0, "held: 2 members fell silent at once, and nothing proves them gone")
    opened = act(job, 16.0, sightings)
    assert isinstance(opened, WriteWorld)
    assert (opened.world.cause, opened.world.loss_grace_spent) == (Cause.NODE_LOST, True)


def test_nothing_is_closed_on_their_account_either() -> None:
    sightings, job = ObservationClock(), running().lost(1).lost(2)
    job.forming(2, cause=Cause.WORKER_FAILED).nodes(0, 3, ready=2)
    assert act(job, 10.0, sightings) == Wait(16.0, "held: 2 members fell silent at once, and nothing proves them gone")
    closed = act(job, 16.0, sightings)
    assert isinstance(closed, WriteWorld)
    assert (closed.world.state, closed.world.node_losses, closed.world.loss_grace_spent) == (
        RoundPhase.ACTIVE,
        1,
        False,
    )


def test_a_round_that_was_held_and_must_wait_for_members_is_not_held_again_by_another_closer() -> None:
    sightings, job = ObservationClock(), running().spec(min=3).lost(1).lost(2)
    job.forming(2).nodes(0, 3, ready=2)
    act(job, 0.0, sightings)
    judged = act(job, 6.0, sightings)
    assert isinstance(judged, WriteWorld)
    assert (judged.world.state, judged.world.has_verdict, judged.world.loss_grace_spent) == (
        RoundPhase.FORMING,
        True,
        True,
    )


def test_whoever_else_leaves_or_is_proved_gone_opens_the_round_meanwhile() -> None:
    sightings, job = ObservationClock(), running().lost(1).lost(2).node(3, ready=1, leaving=True)
    opened = act(job, 0.0, sightings)
    assert isinstance(opened, WriteWorld)
    assert (opened.world.cause, opened.world.loss_grace_spent) == (Cause.NODE_LEFT, False)


def test_a_single_loss_is_never_held() -> None:
    opened = act(running().lost(1), 0.0, ObservationClock())
    assert isinstance(opened, WriteWorld)
    assert opened.world.cause is Cause.NODE_LOST


def test_joiners_wait_for_the_end_of_a_hold() -> None:
    job = running(3).spec(max=4, desired=4).lost(1).lost(2).nodes(5)
    assert isinstance(act(job, 0.0, ObservationClock()), Wait)


def test_members_that_come_back_within_it_cost_nothing() -> None:
    sightings, job = ObservationClock(), running()
    act(job, 0.0, sightings)
    act(job.lost(1).lost(2), 10.0, sightings)
    assert act(job.nodes(1, 2, ready=1), 12.0, sightings) == Wait(reason="running")
    assert Member(1, "00000001") in job.build().nodes
