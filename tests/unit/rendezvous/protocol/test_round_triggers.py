"""The reasons for which an active round must end."""

import pytest

from elasticjob_agent.rendezvous.protocol import round_triggers
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.records import TombstoneReason
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState
from tests.unit.rendezvous.views import ViewBuilder, slots_of, view_builder


def running(least: int = 1, most: int = 3, **spec: object) -> ViewBuilder:
    """Return a job whose round 1 runs in slots 0, 1 and 2."""
    return view_builder(least, most, **spec).nodes(0, 1, 2).active(1, 0, 1, 2)


def mapped() -> ViewBuilder:
    """Return the same job with an operator."""
    return running().owned_by(s0="pod-0", s1="pod-1", s2="pod-2")


def reason(job: ViewBuilder) -> tuple[Cause, str] | None:
    view = job.build()
    assert view.spec is not None
    assert view.state is not None
    found = round_triggers.find_trigger(view, view.spec, view.state)
    return None if found is None else (found.cause, found.detail)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(running(), None, id="all members run"),
        pytest.param(mapped(), None, id="all members run, with an operator"),
        pytest.param(running().lost(1), (Cause.NODE_LOST, "slot 1 was lost"), id="a member's key is gone"),
        pytest.param(
            running().lost(1).node(1, incarnation="f" * 8),
            (Cause.NODE_LOST, "slot 1 was lost"),
            id="a new session in the slot is not the member",
        ),
        pytest.param(
            running().tombstone(1, TombstoneReason.REFUSED),
            (Cause.NODE_LOST, "pod-1 was lost (refused)"),
            id="it has a tombstone",
        ),
        pytest.param(running().node(1, leaving=True), (Cause.NODE_LEFT, "pod-1 left"), id="it is leaving"),
        pytest.param(
            running().lost(1).tombstone(1, TombstoneReason.LEFT),
            (Cause.NODE_LEFT, "slot 1 left"),
            id="it left in order",
        ),
        pytest.param(
            mapped().owned_by(s0="pod-0", s1="pod-9", s2="pod-2"),
            (Cause.NODE_LEFT, "pod-1 is replaced by pod-9"),
            id="its slot went to another pod",
        ),
        pytest.param(
            mapped().owned_by(s0="pod-0", s2="pod-2"),
            (Cause.SCALED_DOWN, "pod-1 no longer owns its slot"),
            id="no pod owns its slot",
        ),
        pytest.param(
            mapped().owned_by(s0="pod-0", s2="pod-2").node(1, leaving=True),
            (Cause.NODE_LEFT, "pod-1 left"),
            id="no pod owns its slot, and it is leaving",
        ),
        pytest.param(
            mapped().node(1, incarnation="f" * 8),
            (Cause.NODE_LEFT, "pod-1 is replaced by a newer session of its own"),
            id="the same pod began a newer session",
        ),
        pytest.param(running().node(1, incarnation="f" * 8), None, id="without an operator the oldest session counts"),
        pytest.param(running().completion(1, 1).lost(1), None, id="a finished member that is gone"),
        pytest.param(running().completion(1, 1).node(1, leaving=True), None, id="a finished member that is leaving"),
        pytest.param(
            running().completion(0, 1).lost(1), (Cause.NODE_LOST, "slot 1 was lost"), id="done in an earlier round"
        ),
        pytest.param(
            running().spec(restart_id="again"), (Cause.RESTART_REQUESTED, "restart again was requested"), id="a restart"
        ),
        pytest.param(
            running().completion(1, 0).spec(restart_id="again"),
            (Cause.RESTART_REQUESTED, "restart again was requested"),
            id="a restart though one is done",
        ),
        pytest.param(running().spec(desired=2), (Cause.SCALED_DOWN, "2 of 3 nodes are wanted"), id="fewer are desired"),
        pytest.param(running().completion(1, 0).spec(desired=2), None, id="fewer are desired, and one is done"),
        pytest.param(running(most=9).spec(desired=9), None, id="a larger desired size opens no round"),
        pytest.param(
            running().spec(desired=2).lost(1),
            (Cause.NODE_LOST, "slot 1 was lost"),
            id="a loss before a change of the size",
        ),
    ],
)
def test_the_trigger_of_the_next_round(job: ViewBuilder, expected: tuple[Cause, str] | None) -> None:
    assert reason(job) == expected


@pytest.mark.parametrize(
    ("job", "done"),
    [
        pytest.param(running(), False, id="none"),
        pytest.param(running().completion(1, 0, 1), False, id="two of three"),
        pytest.param(running().completion(1, 0, 1, 2), True, id="all"),
        pytest.param(running().completion(0, 0, 1, 2), False, id="all, in another round"),
        pytest.param(running().completion(1, 0, 1, 2).lost(1), True, id="all, and one is gone"),
        pytest.param(running(success_policy="AnyWorker").completion(1, 2), True, id="any, where one is enough"),
        pytest.param(running(success_policy="AnyWorker"), False, id="none, where one is enough"),
    ],
)
def test_success(job: ViewBuilder, done: bool) -> None:  # noqa: FBT001 -- a column of the table
    view = job.build()
    assert view.spec is not None
    assert view.state is not None
    assert round_triggers.all_completed(view, view.spec, view.state) is done


def test_done_by_another_incarnation_is_not_success() -> None:
    view = running().completion(1, 0, 1, 2).build()
    assert view.spec is not None
    assert view.state is not None
    members = (*view.state.members[:2], Member(2, "f" * 8))
    other = RendezvousState(phase=view.state.phase, round=1, nonce="n", members=members)
    assert not round_triggers.all_completed(view, view.spec, other)


@pytest.mark.parametrize(
    ("job", "slots"),
    [
        pytest.param(running(most=4).nodes(3), [3], id="there is room"),
        pytest.param(running(most=3).nodes(3), [], id="there is none"),
        pytest.param(running(most=9).spec(desired=4).nodes(3, 4), [3], id="for the desired number, lowest first"),
        pytest.param(running(most=4).node(3, leaving=True), [], id="a leaving node"),
        pytest.param(running(most=5, replica_step=2).nodes(3), [], id="one, if only two make an allowed number"),
        pytest.param(running(most=5, replica_step=2).nodes(3, 4), [3, 4], id="two that make an allowed number"),
        pytest.param(running(most=4).nodes(3).tombstone(3, TombstoneReason.WEDGED), [], id="a node with a tombstone"),
        pytest.param(
            running(most=4).nodes(3).holdings(3, HoldingsRecord(port=7, has_listed=False)),
            [],
            id="a node that waits for the shared directory",
        ),
        pytest.param(
            running(most=4).nodes(3).holdings(3, HoldingsRecord(port=7, has_listed=True)),
            [3],
            id="a node that has listed the shared directory",
        ),
        pytest.param(running(most=4).nodes(3).completion(1, 0), [], id="never once a member is done"),
        pytest.param(mapped().spec(max=4, desired=4).nodes(3), [], id="a node that owns no slot"),
        pytest.param(
            mapped().spec(max=4, desired=4).owned_by(s0="pod-0", s1="pod-1", s2="pod-2", s3="pod-3").nodes(3),
            [3],
            id="a node that owns a slot",
        ),
    ],
)
def test_joiners_that_a_new_round_would_include(job: ViewBuilder, slots: list[int]) -> None:
    view = job.build()
    assert view.spec is not None
    assert view.state is not None
    assert slots_of(round_triggers.joiners(view, view.spec, view.state)) == slots


@pytest.mark.parametrize(
    ("job", "fill"),
    [
        pytest.param(running(most=4).nodes(3), True, id="the last place is taken"),
        pytest.param(running(most=5).nodes(3), False, id="one place stays empty"),
        pytest.param(running(most=5).nodes(3, 4), True, id="both places are taken"),
    ],
)
def test_joiners_fill_the_desired_size(job: ViewBuilder, fill: bool) -> None:  # noqa: FBT001 -- a column of the table
    view = job.build()
    assert view.spec is not None
    assert view.state is not None
    assert round_triggers.joiners_fill(view, view.spec, view.state) is fill
