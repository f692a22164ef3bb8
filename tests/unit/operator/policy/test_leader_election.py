"""An election by a Lease: never two leaders at once, whatever happens to requests, and eventually one leader."""

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from elasticjob_operator.model.lease import Lease
from elasticjob_operator.policy.leader_election import (
    Candidate,
    ElectionStep,
    ElectionTiming,
    after_no_answer,
    expires_s,
    is_leader,
    is_uninterrupted,
    next_step,
    retry_in_s,
    start_attempt,
    with_observed_lease,
    with_written_lease,
)

TIMING = ElectionTiming()
ME = Candidate(identity="me", timing=TIMING)


def lease(holder: str, version: str = "1", duration_s: float = 4.0) -> Lease:
    return Lease(holder=holder, duration_s=duration_s, version=version)


def test_a_candidate_reads_the_lease_before_it_writes() -> None:
    assert next_step(ME, 0.0) is ElectionStep.READ


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (None, ElectionStep.CREATE),
        (lease(""), ElectionStep.ACQUIRE),
        (lease("me"), ElectionStep.RENEW),
        (lease("other"), ElectionStep.WAIT),
    ],
)
def test_the_next_step_depends_on_the_lease_that_was_read(found: Lease | None, step: ElectionStep) -> None:
    assert next_step(with_observed_lease(ME, found, 10.0), 10.0) is step


def test_a_lease_expires_when_this_candidate_has_observed_no_change_for_its_duration() -> None:
    first = with_observed_lease(ME, lease("other"), 10.0)
    again = with_observed_lease(start_attempt(first, 13.9), lease("other"), 13.9)
    assert next_step(again, 13.9) is ElectionStep.WAIT
    assert next_step(again, 14.0) is ElectionStep.ACQUIRE
    renewed = with_observed_lease(start_attempt(first, 13.9), lease("other", version="2"), 13.9)
    assert next_step(renewed, 14.0) is ElectionStep.WAIT
    assert expires_s(renewed) == 17.9


def test_the_duration_is_the_holders_own() -> None:
    assert expires_s(with_observed_lease(ME, lease("other", duration_s=15.0), 0.0)) == 15.0
    assert expires_s(with_observed_lease(ME, lease("other", duration_s=0.0), 0.0)) == TIMING.lease_duration_s


def test_leadership_counts_from_the_time_of_the_renewal_request_not_of_the_answer() -> None:
    leader = with_written_lease(ME, lease("me"), sent_s=10.0, now_s=12.0)
    assert is_leader(leader, 12.9)
    assert not is_leader(leader, 13.0)


def test_a_candidate_named_in_the_lease_leads_only_after_a_confirmed_renewal() -> None:
    assert not is_leader(with_observed_lease(ME, lease("me"), 10.0), 10.0)


def test_a_leader_that_observes_another_holder_stops_leading() -> None:
    leader = with_written_lease(ME, lease("me"), sent_s=10.0, now_s=10.0)
    assert not is_leader(with_observed_lease(leader, lease("other", version="2"), 10.5), 10.5)


def test_leadership_that_expired_and_was_acquired_again_is_interrupted() -> None:
    leader = with_written_lease(ME, lease("me"), sent_s=10.0, now_s=10.0)
    assert is_uninterrupted(leader, with_written_lease(leader, lease("me", "2"), sent_s=12.9, now_s=12.9))
    assert not is_uninterrupted(leader, with_written_lease(leader, lease("me", "2"), sent_s=13.0, now_s=13.0))


def test_a_leader_renews_once_per_period_and_sooner_after_a_failure_but_not_at_once() -> None:
    leader = with_written_lease(ME, lease("me"), sent_s=10.0, now_s=10.0)
    assert retry_in_s(leader, 10.0) == TIMING.retry_period_s
    assert retry_in_s(after_no_answer(leader), 11.5) == TIMING.retry_period_s / 4
    assert retry_in_s(after_no_answer(leader), 12.9) == pytest.approx(0.1)  # its leadership ends then


def test_a_standby_reads_once_per_period_and_at_the_expiry_of_the_lease() -> None:
    other = with_observed_lease(ME, lease("other"), 10.0)
    assert retry_in_s(other, 10.0) == TIMING.retry_period_s
    assert retry_in_s(other, 13.7) == pytest.approx(0.3)
    assert retry_in_s(other, 14.0) == TIMING.retry_period_s


@dataclass
class Process:
    """A candidate with its own clock, which has an offset and a rate."""

    candidate: Candidate
    offset_s: float
    rate: float
    requests: list["Request"] = field(default_factory=list)

    def clock(self, now_s: float) -> float:
        return self.offset_s + self.rate * now_s


@dataclass
class Request:
    """A request of a candidate: to read the Lease, or to hold the Lease of this version."""

    step: ElectionStep
    version: str
    sent_s: float
    arrived: bool = False
    conflict: bool = False
    answer: Lease | None = None


class Election(RuleBasedStateMachine):
    """Three candidates. Each request may be lost, arrive late, or lose its answer. Clocks differ by up to 10 %."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.lease: Lease | None = None
        self.versions = itertools.count(1)
        self.late: list[tuple[str, Request]] = []
        """Requests in flight whose answers are no longer awaited, with the identity of their candidate."""
        rates = [0.9, 1.0, 1.1]
        self.processes = [
            Process(Candidate(identity=f"c{n}", timing=TIMING), offset_s=-500.0 * n, rate=rate)
            for n, rate in enumerate(rates)
        ]

    def leaders(self) -> list[str]:
        return [p.candidate.identity for p in self.processes if is_leader(p.candidate, p.clock(self.now_s))]

    @invariant()
    def there_are_never_two_leaders(self) -> None:
        assert len(self.leaders()) <= 1

    # The API server.

    def _arrive(self, identity: str, request: Request) -> None:
        if request.arrived:
            return
        request.arrived = True
        if request.step is ElectionStep.READ:
            request.answer = self.lease
        elif request.version != (self.lease.version if self.lease else ""):
            request.conflict = True
        else:
            self.lease = lease(identity, version=str(next(self.versions)))
            request.answer = self.lease

    # One candidate.

    def _send(self, process: Process) -> None:
        now_s = process.clock(self.now_s)
        step = next_step(process.candidate, now_s)
        if step is not ElectionStep.WAIT:
            version = process.candidate.lease.version if process.candidate.lease else ""
            process.requests.append(Request(step, version, sent_s=now_s))

    def _answer(self, process: Process) -> None:
        request, now_s = process.requests.pop(), process.clock(self.now_s)
        if request.conflict or (request.step is not ElectionStep.READ and request.answer is None):
            process.candidate = after_no_answer(process.candidate)
        elif request.step is ElectionStep.READ:
            process.candidate = with_observed_lease(process.candidate, request.answer, now_s)
            self._send(process)
        else:
            assert request.answer is not None
            process.candidate = with_written_lease(
                process.candidate, request.answer, sent_s=request.sent_s, now_s=now_s
            )

    @rule(n=st.integers(0, 2))
    def a_candidate_starts_an_attempt(self, n: int) -> None:
        process = self.processes[n]
        if not process.requests or process.requests[-1].arrived:
            process.candidate = start_attempt(process.candidate, process.clock(self.now_s))
            process.requests.clear()
            self._send(process)

    @rule(n=st.integers(0, 2), wait_s=st.sampled_from([0.0, 0.0, 1.0]))
    def a_candidate_starts_an_attempt_and_gets_its_answer_at_once(self, n: int, wait_s: float) -> None:
        process = self.processes[n]
        self.now_s += wait_s
        self.there_are_never_two_leaders()
        self.a_candidate_starts_an_attempt(n)
        while process.requests:
            self._arrive(process.candidate.identity, process.requests[-1])
            self._answer(process)

    @rule(n=st.integers(0, 2))
    def its_request_arrives(self, n: int) -> None:
        process = self.processes[n]
        if process.requests:
            self._arrive(process.candidate.identity, process.requests[-1])

    @rule(n=st.integers(0, 2))
    def its_answer_arrives(self, n: int) -> None:
        process = self.processes[n]
        if process.requests and process.requests[-1].arrived:
            self._answer(process)

    @rule(n=st.integers(0, 2))
    def a_request_times_out_and_may_still_arrive(self, n: int) -> None:
        process = self.processes[n]
        process.candidate = after_no_answer(process.candidate)
        self.late += [(process.candidate.identity, request) for request in process.requests]
        process.requests = []

    @rule(pick=st.integers(0, 9))
    def an_old_request_arrives(self, pick: int) -> None:
        if self.late:
            self._arrive(*self.late.pop(pick % len(self.late)))

    @rule(n=st.integers(0, 2))
    def it_releases_the_lease_and_another_process_starts(self, n: int) -> None:
        process = self.processes[n]
        known = process.candidate.lease
        if known and self.lease and self.lease.version == known.version and known.holder == process.candidate.identity:
            self.lease = lease("", version=str(next(self.versions)))
        self._replace(process)

    @rule(n=st.integers(0, 2))
    def it_is_killed_and_another_process_starts(self, n: int) -> None:
        self._replace(self.processes[n])

    def _replace(self, process: Process) -> None:
        self.late += [(process.candidate.identity, request) for request in process.requests]
        process.candidate = Candidate(identity=f"restarted-{next(self.versions)}", timing=TIMING)
        process.requests = []

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 2.5, 3.1, 4.1, 10.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.now_s += seconds

    # The end.

    def teardown(self) -> None:
        """Check that there is a leader soon once all requests are answered, and another one when that is killed."""
        first = self._settle()
        killed = next(p for p in self.processes if p.candidate.identity == first)
        killed.candidate = Candidate(identity="last", timing=TIMING)
        assert self._settle() != first

    def _settle(self) -> str:
        for _ in range(60):
            for n in range(len(self.processes)):
                self.a_candidate_starts_an_attempt_and_gets_its_answer_at_once(n, 0.0)
            self.now_s += 0.1
        (leader,) = self.leaders()
        return leader


TestElection = pytest.mark.timeout(3600)(Election.TestCase)  # the number of steps limits it, not the clock
TestElection.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
