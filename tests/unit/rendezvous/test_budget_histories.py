"""Complete histories of a job, round after round through the real plan: charges, delays, and the end."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.leader_plan import Wait, WriteState, plan
from elasticjob_agent.rendezvous.protocol.restart_backoff import restart_delay_s
from elasticjob_agent.rendezvous.protocol.restart_budget import FailureAgeClock
from elasticjob_agent.rendezvous.protocol.verdict import PORT_RETRIES
from elasticjob_api.records import SpecRecord, TombstoneReason
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase, encode_state, next_round
from tests.unit.rendezvous.views import KEYS, ViewBuilder, member, observed_at

MEMBERS = (member(0), member(1))
TENTH_S = 0.1


@dataclass
class JobHistory:
    """A job of two nodes and one leader that sees each state."""

    spec: SpecRecord
    now_s: float = 0.0
    charged_s: list[float] = field(default_factory=list)
    clock: FailureAgeClock = field(default_factory=FailureAgeClock)
    strikes: int = 0
    ports: int = 0

    def __post_init__(self) -> None:
        self.state = RendezvousState(phase=RoundPhase.ACTIVE, round=1, nonce="n", members=MEMBERS)

    def end_of_round(self, how: str, after_s: float) -> None:
        """End the round so; then the leader acts until the next one is active, or until the job ends."""
        self.now_s += after_s
        cause = {"lost": Cause.NODE_LOST, "planned": Cause.NODE_JOINED}.get(how, Cause.WORKER_FAILED)
        before, start_s = self.state, self.now_s
        self.state = next_round(before, "opened", cause)
        for _ in range(4):
            if self.state.phase is not RoundPhase.FORMING:
                break
            self._act(self._view(how), start_s)
        assert self.state.phase in {RoundPhase.ACTIVE, RoundPhase.FAILED}, "the leader does not finish"
        self._check(how, before, start_s)

    def _view(self, how: str) -> ViewBuilder:
        job = (
            ViewBuilder(self.spec)
            .put_raw(KEYS.rendezvous_state, encode_state(self.state))
            .members(self.state.round - 1, 0, 1)
        )
        job.nodes(0, 1, ready=self.state.round)
        if how == "lost":
            return job.tombstone(1, TombstoneReason.LEFT).lost(1).node(1, incarnation="f" * 8)
        if how == "planned":
            return job
        words = {"startup": how == "startup", "port_taken": how == "port", "message": how}
        return job.failure(self.state.round - 1, 0, 0, **words)

    def _act(self, job: ViewBuilder, start_s: float) -> None:
        charges_s = self.clock.record(self.state.charged_failures, self.now_s)
        decision = plan(job.build(), observed_at(self.now_s, forming_since_s=start_s, charged_ages_s=charges_s), "n")
        if isinstance(decision, Wait):
            assert decision.until_s is not None
            self.now_s = decision.until_s
        else:
            assert isinstance(decision, WriteState)
            self.state = replace(decision.state, nonce="n")
            self.clock.record(self.state.charged_failures, self.now_s)

    def _check(self, how: str, before: RendezvousState, start_s: float) -> None:
        self.ports = self.ports + 1 if how == "port" else 0
        free = how in {"lost", "planned"} or (how == "port" and self.ports <= PORT_RETRIES)
        self.strikes = self.strikes + 1 if how == "startup" else 0
        if self.state.phase is RoundPhase.FAILED:
            assert not free, f"{how} has ended the job"
            assert self._young(start_s, TENTH_S) >= self.spec.max_restarts, "ended before the restarts were used up"
            return
        assert self.state.restarts - before.restarts == (0 if free else 1)
        assert self.state.startup_failures == self.strikes
        assert self.now_s - start_s == pytest.approx(restart_delay_s(self.spec, self.strikes)) or self.strikes <= 1
        if not free:
            assert self._young(start_s, -TENTH_S) < self.spec.max_restarts, "continued after the restarts were used up"
            self.charged_s.append(start_s)

    def _young(self, now_s: float, slack_s: float) -> int:
        """Return the charged failures within the window; its edge is not sharp, as ages are in tenths of a second."""
        window_s = self.spec.restart_window_s
        edge_s = slack_s * (len(self.charged_s) + 1)
        return sum(window_s == 0 or now_s - at_s < window_s + edge_s for at_s in self.charged_s)


ENDS = st.tuples(st.sampled_from(["startup", "failure", "port", "lost", "planned"]), st.floats(0.5, 90))
SPECS = st.builds(
    SpecRecord,
    min=st.just(1),
    max=st.just(2),
    desired=st.just(2),
    max_restarts=st.integers(0, 6),
    restart_window_s=st.sampled_from([0.0, 30.0, 100.0]),
    backoff_initial_s=st.sampled_from([0.0, 1.0, 20.0]),
    backoff_max_s=st.sampled_from([0.0, 5.0, 300.0]),
)


@given(SPECS, st.lists(ENDS, max_size=25))
def test_charges_delays_and_the_end_follow_the_spec(spec: SpecRecord, ends: list[tuple[str, float]]) -> None:
    history = JobHistory(spec)
    for how, after_s in ends:
        if history.state.phase is RoundPhase.ACTIVE:
            history.end_of_round(how, after_s)
