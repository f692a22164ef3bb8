"""Which members are unreachable, when the leader waits for them, and that it waits once."""

import pytest

from elasticjob_agent.rendezvous.leader.observations import ObservationClock
from elasticjob_agent.rendezvous.protocol import mass_loss_grace
from elasticjob_agent.rendezvous.protocol.leader_plan import Decision, Wait, WriteState, plan
from elasticjob_agent.rendezvous.protocol.mass_loss_grace import MIN_GRACE_S, LossGrace, LossGraceTimer
from elasticjob_api.records import TombstoneReason
from elasticjob_api.rendezvous_state import Cause, Member, RoundPhase
from tests.unit.rendezvous.views import ViewBuilder, a_node, member, view_builder


def running(count: int = 4, **spec: object) -> ViewBuilder:
    """Return a job whose round 1 runs in the first `count` slots."""
    # An active round that no round before it formed was written back after a wipe.
    return view_builder(1, count, **spec).nodes(*range(count), ready=1).forming(1).active(1, *range(count))


def unreachable(job: ViewBuilder) -> list[int]:
    known = {member(slot): a_node(slot) for slot in range(8)}
    return sorted(one.slot for one in mass_loss_grace.unreachable_members(job.build(), known))


def owned(job: ViewBuilder) -> ViewBuilder:
    return job.owned_by(s0="pod-0", s1="pod-1", s2="pod-2", s3="pod-3")


@pytest.mark.parametrize(
    ("job", "slots"),
    [
        pytest.param(running(), [], id="all are there"),
        pytest.param(running().lost(1).lost(2), [1, 2], id="keys are gone"),
        pytest.param(running().lost(1).tombstone(1, TombstoneReason.REFUSED), [], id="proved to be gone"),
        pytest.param(running().lost(1).tombstone(1, TombstoneReason.LEFT), [], id="it left"),
        pytest.param(running().lost(1).completion(1, 1), [], id="it had finished"),
        pytest.param(running().lost(1).node(7, incarnation="f" * 8, pod="pod-1"), [], id="it has rejoined in any slot"),
        pytest.param(running().lost(1).node(1, incarnation="f" * 8, pod="pod-9"), [1], id="another pod has its slot"),
        pytest.param(owned(running()).lost(1), [1], id="its pod still owns its slot"),
        pytest.param(
            running().lost(1).owned_by(s0="pod-0", s1="pod-9", s2="pod-2", s3="pod-3"),
            [],
            id="another pod owns its slot",
        ),
        pytest.param(running().lost(1).owned_by(s0="pod-0", s2="pod-2"), [], id="no pod owns its slot"),
        pytest.param(running().lost(1).no_spec(), [], id="without a spec"),
        pytest.param(view_builder().nodes(0), [], id="before the first round"),
    ],
)
def test_unreachable_members(job: ViewBuilder, slots: list[int]) -> None:
    assert unreachable(job) == slots


def test_a_member_without_a_known_record_has_rejoined_if_its_slot_has_a_key() -> None:
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
def test_mass_loss(slots: list[int], hosts: dict[int, str], suspicious: bool) -> None:  # noqa: FBT001 -- a column
    known = {member(slot): a_node(slot, host=hosts.get(slot, f"host-{slot}")) for slot in range(4)}
    members = frozenset(member(slot) for slot in slots)
    assert mass_loss_grace.is_mass_loss(running().build(), members, known) is suspicious


def test_three_in_ten_are_a_mass_loss_and_fewer_are_not() -> None:
    view = running(10).build()
    assert not mass_loss_grace.is_mass_loss(view, frozenset({member(0), member(1)}), {})
    assert mass_loss_grace.is_mass_loss(view, frozenset({member(0), member(1), member(2)}), {})


def test_a_loss_grace_lasts_a_lease_period_and_at_least_six_seconds() -> None:
    two = running().lost(1).lost(2)
    assert LossGraceTimer().update(two.build(), 100.0).until_s == 100.0 + MIN_GRACE_S
    assert LossGraceTimer().update(two.spec(keep_alive_s=20.0).build(), 100.0).until_s == 120.0


def test_it_ends_with_tombstones_and_the_next_loss_does_not_start_another() -> None:
    clock, job = LossGraceTimer(), running()
    clock.update(job.build(), 0.0)
    assert clock.update(job.lost(1).lost(2).build(), 10.0).until_s == 16.0
    assert clock.update(job.tombstone(1, TombstoneReason.REFUSED).build(), 12.0) == LossGrace()
    assert clock.update(job.lost(3).build(), 13.0) == LossGrace(frozenset({member(2), member(3)}), 16.0)
    assert clock.update(job.build(), 16.0) == LossGrace(is_over=True)


def test_a_membership_whose_members_all_rejoined_can_have_another_grace() -> None:
    clock = LossGraceTimer()
    clock.update(running().lost(1).lost(2).build(), 0.0)
    assert clock.update(running().build(), 3.0) == LossGrace()
    assert clock.update(running().build(), 90.0) == LossGrace()
    assert clock.update(running().lost(2).lost(3).build(), 100.0).until_s == 106.0


def test_another_membership_can_have_a_grace_again() -> None:
    clock = LossGraceTimer()
    clock.update(running().lost(1).lost(2).build(), 0.0)
    later = view_builder(1, 4).nodes(0, ready=2).active(2, 0, 1, 2)
    assert clock.update(later.build(), 50.0).until_s == 56.0


def test_a_later_leader_does_not_repeat_it() -> None:
    assert (
        LossGraceTimer().update(running().lost(1).lost(2).forming(2, loss_grace_spent=True).build(), 0.0) == LossGrace()
    )


def test_a_grace_ends_when_a_state_with_a_spent_grace_is_written_back() -> None:
    clock, job = LossGraceTimer(), running().lost(1).lost(2).forming(2)
    assert (
        clock.update(job.build(), 0.0).until_s == MIN_GRACE_S
    )  # etcd was wiped, and has no record yet of the earlier grace
    assert clock.update(job.forming(2, loss_grace_spent=True).build(), 1.0) == LossGrace()


# The leader's decisions meanwhile.


def act(job: ViewBuilder, now_s: float, observations: ObservationClock) -> Decision:
    view = job.build()
    return plan(view, observations.update(view, now_s), "fresh")


def test_no_round_opens_for_them_during_the_grace_and_the_next_state_has_it_spent() -> None:
    observations, job = ObservationClock(), running()
    act(job, 0.0, observations)
    waiting = act(job.lost(1).lost(2), 10.0, observations)
    assert waiting == Wait(16.0, "loss grace: 2 members are unreachable, and nothing proves them gone")
    opened = act(job, 16.0, observations)
    assert isinstance(opened, WriteState)
    assert (opened.state.cause, opened.state.loss_grace_spent) == (Cause.NODE_LOST, True)


def test_no_round_closes_without_them_during_the_grace() -> None:
    observations, job = ObservationClock(), running().lost(1).lost(2)
    job.forming(2, cause=Cause.WORKER_FAILED).nodes(0, 3, ready=2)
    assert act(job, 10.0, observations) == Wait(
        16.0, "loss grace: 2 members are unreachable, and nothing proves them gone"
    )
    closed = act(job, 16.0, observations)
    assert isinstance(closed, WriteState)
    assert (closed.state.phase, closed.state.node_losses, closed.state.loss_grace_spent) == (
        RoundPhase.ACTIVE,
        1,
        False,
    )


def test_another_leader_does_not_repeat_the_grace_of_a_round_that_waits_for_members() -> None:
    observations, job = ObservationClock(), running().spec(min=3).lost(1).lost(2)
    job.forming(2).nodes(0, 3, ready=2)
    act(job, 0.0, observations)
    opened = act(job, 6.0, observations)
    assert isinstance(opened, WriteState)
    assert (opened.state.phase, opened.state.has_verdict, opened.state.loss_grace_spent) == (
        RoundPhase.FORMING,
        True,
        True,
    )


def test_another_member_that_leaves_or_is_proved_to_be_gone_opens_the_round_meanwhile() -> None:
    observations, job = ObservationClock(), running().lost(1).lost(2).node(3, ready=1, leaving=True)
    opened = act(job, 0.0, observations)
    assert isinstance(opened, WriteState)
    assert (opened.state.cause, opened.state.loss_grace_spent) == (Cause.NODE_LEFT, False)


def test_a_single_loss_has_no_grace() -> None:
    opened = act(running().lost(1), 0.0, ObservationClock())
    assert isinstance(opened, WriteState)
    assert opened.state.cause is Cause.NODE_LOST


def test_joiners_wait_for_the_end_of_the_grace() -> None:
    job = running(3).spec(max=4, desired=4).lost(1).lost(2).nodes(5)
    assert isinstance(act(job, 0.0, ObservationClock()), Wait)


def test_members_that_rejoin_within_the_grace_cost_nothing() -> None:
    observations, job = ObservationClock(), running()
    act(job, 0.0, observations)
    act(job.lost(1).lost(2), 10.0, observations)
    assert act(job.nodes(1, 2, ready=1), 12.0, observations) == Wait(reason="running")
    assert Member(1, "00000001") in job.build().nodes
