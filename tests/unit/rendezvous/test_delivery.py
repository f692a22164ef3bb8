"""Invariant 10: single or merged watch events and lost answers change only the timing.

The same faults and spec changes happen to the same job several times, and after each all agents get fair turns. The job
ends in the same state, however the watches deliver and whichever answers are lost.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import RoundPhase
from tests.unit.rendezvous.conftest import NIGHTLY
from tests.unit.rendezvous.sim.job import SimJob
from tests.unit.rendezvous.sim.node import SimNode
from tests.unit.rendezvous.sim.wire import Fault

NODES = 3
MERGED, ONE_BY_ONE, IN_PAIRS = None, 1, 2


@dataclass(frozen=True)
class End:
    """The part of the end that does not depend on the timing."""

    phase: RoundPhase
    restarts: int
    losses: int
    size: int
    running: int


MOVES: Mapping[str, Callable[[SimJob, SimNode], object]] = {
    "fail": lambda _job, node: node.workers.fail(1),
    "finish": lambda job, node: job.succeed(node),
    "leave": lambda _job, node: setattr(node, "leave_requested", True),
    "die": lambda _job, node: node.kill(),
    "restart": lambda job, _node: job.restart(),
    "join": lambda job, _node: job.spawn(),
}
History = list[tuple[str, int]]
moves = st.lists(st.tuples(st.sampled_from(sorted(MOVES)), st.integers(0, NODES)), max_size=6)


def end_of(history: History, at_once: int | None, seed: int = 0) -> End:
    """Play the history; with a seed the answers of each move may be lost."""
    job, draw = SimJob(SpecRecord(min=1, max=NODES, desired=NODES, max_restarts=2)), random.Random(seed)
    job.at_once = at_once
    for _ in range(NODES):
        job.spawn()
    job.settle()
    for move, index in history:
        living = job.running()
        if job.ended or not living:
            break
        node = living[index % len(living)]
        MOVES[move](job, node)
        if seed and node.alive:
            node.etcd.faults = [draw.choice([None, Fault.ANSWER_LOST])]
            node.turn()
        job.settle()
    job.check_running()
    assert job.state is not None
    running = sum(node.workers.alive for node in job.running())
    return End(job.state.phase, job.state.restarts, job.state.node_losses, len(job.state.members), running)


@settings(max_examples=2000 if NIGHTLY else 12)
@given(moves)
def test_single_or_merged_events_change_only_the_timing(
    history: History,
) -> None:
    merged = end_of(history, MERGED)
    assert end_of(history, ONE_BY_ONE) == merged
    assert end_of(history, IN_PAIRS) == merged


@settings(max_examples=2000 if NIGHTLY else 12)
@given(moves, st.integers(1, 1000))
def test_lost_answers_change_only_the_timing(history: History, seed: int) -> None:
    assert end_of(history, MERGED, seed) == end_of(history, MERGED)


def test_different_histories_have_different_ends() -> None:
    assert end_of([("fail", 0)], MERGED) == End(RoundPhase.ACTIVE, restarts=1, losses=0, size=3, running=3)
    assert end_of([("die", 0)], MERGED) == End(RoundPhase.ACTIVE, restarts=0, losses=1, size=2, running=2)
