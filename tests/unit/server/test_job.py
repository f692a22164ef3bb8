"""Agents of one job over our own rendezvous: one budget, one count, one end for all; over an in-memory etcd."""

import concurrent.futures
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_agent.multiprocessing import SignalException
from elasticjob_agent.server import RunResult, WorkerState
from testing.waiting import eventually
from tests.unit.rendezvous.handlers import Job
from tests.unit.server.agents import FAILED, HEALTHY, SUCCEEDED, ScriptedAgent, failure, spec

Run = "concurrent.futures.Future[RunResult]"


class Team:
    """A job whose agents run in threads; each check of an agent's workers returns the state in `next`."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.agents: list[ScriptedAgent] = []
        self.runs: list[concurrent.futures.Future[RunResult]] = []
        self.next: list[WorkerState] = []

    def start(self, count: int, **fields: Any) -> None:
        for _ in range(count):
            at = len(self.agents)
            self.next.append(HEALTHY)
            own = spec(
                self.job.bare_handler(), monitor_interval=0.01, max_restarts=self.job.spec.max_restarts, **fields
            )
            self.agents.append(ScriptedAgent(own, self._checks(at)))
            self.runs.append(self.job.pool.submit(self.agents[at].run))

    def _checks(self, at: int) -> Iterator[WorkerState | RunResult]:
        while True:
            state = self.next[at]
            if state is FAILED:  # once
                self.next[at] = HEALTHY
            group = self.agents[at].get_worker_group()
            first = group.workers[0].global_rank
            yield RunResult(FAILED, failures={first: failure(0, 3)}) if state is FAILED else state

    def starts(self, count: int) -> None:
        """Wait until each agent has started its workers so often."""
        eventually(lambda: [a.did.count("start") for a in self.agents] == [count] * len(self.agents), within_s=30)
        eventually(lambda: all(a.did[-1] == "check" for a in self.agents), within_s=30, what="a check of all")

    def results(self) -> list[RunResult | str]:
        """Return the result of each run, or the name of its exception."""
        concurrent.futures.wait(self.runs, timeout=30)
        return [type(error).__name__ if (error := run.exception(0)) else run.result(0) for run in self.runs]

    def counts(self) -> list[int]:
        return [agent._restart_count for agent in self.agents]


@pytest.fixture
def team() -> Iterator[Team]:
    new_team = Team(Job(2, 2, max_restarts=1))
    yield new_team
    for agent in new_team.agents:
        agent.stop()
    concurrent.futures.wait(new_team.runs, timeout=30)
    new_team.job.close()


@pytest.fixture
def elastic() -> Iterator[Team]:
    new_team = Team(Job(1, 2, max_restarts=1))
    yield new_team
    for agent in new_team.agents:
        agent.stop()
    concurrent.futures.wait(new_team.runs, timeout=30)
    new_team.job.close()


def test_two_agents_have_the_ranks_of_the_round_and_succeed_together(team: Team) -> None:
    team.start(2)
    team.starts(1)
    ranks = sorted(w.global_rank for a in team.agents for w in a.get_worker_group().workers)
    assert ranks == [0, 1, 2, 3]
    team.next[:] = [SUCCEEDED, SUCCEEDED]
    assert {r.state for r in team.results() if isinstance(r, RunResult)} == {SUCCEEDED}


def test_k_004_01_failure_of_one_agent_restarts_both_and_both_count_it(team: Team) -> None:
    team.start(2)
    team.starts(1)
    team.next[1] = FAILED
    team.starts(2)
    assert team.counts() == [1, 1]
    assert [agent._remaining_restarts for agent in team.agents] == [0, 0]


def test_b_004_38_and_k_004_12_spent_budget_ends_all_agents_with_a_failure(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    team.start(2)
    for round_ in (1, 2):
        team.starts(round_)
        team.next[0] = FAILED
    first, second = team.results()
    assert isinstance(first, RunResult)
    assert isinstance(second, RunResult)
    assert (first.is_failed(), second.is_failed()) == (True, True)
    assert [[f.exitcode for f in r.failures.values()] for r in (first, second)] == [[3], []]
    assert caplog.text.count("the job failed: rank") == 2
    assert all(agent.did.count("shutdown") == 1 for agent in team.agents)


def test_b_004_39_finished_node_runs_its_workers_again_when_another_fails(team: Team) -> None:
    team.start(2)
    team.starts(1)
    team.next[0] = SUCCEEDED
    eventually(lambda: team.agents[0].get_worker_group().state is SUCCEEDED, within_s=30)
    team.next[:] = [HEALTHY, FAILED]
    team.starts(2)
    team.next[:] = [SUCCEEDED, SUCCEEDED]
    assert {r.state for r in team.results() if isinstance(r, RunResult)} == {SUCCEEDED}


def test_k_004_03_and_k_004_10_a_stopped_agent_leaves_and_the_other_continues_without_a_charge(elastic: Team) -> None:
    elastic.start(2)
    elastic.starts(1)
    elastic.agents[0].stop()
    with pytest.raises(SignalException):
        elastic.runs[0].result(30)
    eventually(lambda: elastic.agents[1].did.count("start") == 2, within_s=30)
    assert elastic.agents[1].get_worker_group().group_world_size == 1
    assert elastic.counts()[1] == 0
    elastic.next[1] = SUCCEEDED
    assert elastic.runs[1].result(30).state is SUCCEEDED


def test_k_004_03_exception_in_one_agent_closes_nothing(elastic: Team) -> None:
    elastic.start(2)
    elastic.starts(1)
    elastic.next[0] = WorkerState.UNKNOWN
    with pytest.raises(RuntimeError, match="UNKNOWN"):
        elastic.runs[0].result(30)
    eventually(lambda: elastic.agents[1].did.count("start") == 2, within_s=30)
    elastic.next[1] = SUCCEEDED
    assert elastic.runs[1].result(30).state is SUCCEEDED


def test_b_004_24_workers_that_cannot_be_started_on_one_node_are_a_clear_failure_of_the_job(team: Team) -> None:
    team.start(1)
    bad = ScriptedAgent(spec(team.job.bare_handler(), max_restarts=1), itertools.repeat(HEALTHY))
    team.agents.append(bad)
    bad.on_step = _cannot_start
    team.runs.append(team.job.pool.submit(bad.run))
    with pytest.raises(FileNotFoundError, match="no such command") as raised:
        team.runs[1].result(30)
    assert "not started" in str(raised.value.__cause__)
    assert team.runs[0].result(30).is_failed()
    assert bad.did.count("start") == 2


def _cannot_start(step: str) -> None:
    if step == "start":
        raise FileNotFoundError("no such command: trian.sh")


def test_b_004_25_and_b_004_33_stop_while_waiting_for_the_others_leaves_at_once(team: Team) -> None:
    team.start(1)
    eventually(lambda: team.agents[0].get_worker_group().spec.rdzv_handler._run_task, within_s=30)  # type: ignore[union-attr]
    team.agents[0].stop()
    with pytest.raises(SignalException):
        team.runs[0].result(30)
    assert team.agents[0].did == ["shutdown"]


def test_b_004_31_stop_of_a_finished_node_ends_its_wait(team: Team) -> None:
    team.start(2)
    team.starts(1)
    team.next[0] = SUCCEEDED
    eventually(lambda: team.agents[0].get_worker_group().state is SUCCEEDED, within_s=30)
    team.agents[0].stop()
    with pytest.raises(SignalException):
        team.runs[0].result(30)


def test_b_004_37_finished_node_waits_no_longer_than_its_limit(team: Team) -> None:
    team.start(1)
    own = spec(team.job.bare_handler(), monitor_interval=0.01, max_restarts=1)
    team.agents.append(ScriptedAgent(own, [SUCCEEDED], exit_barrier_timeout=0))
    team.next.append(SUCCEEDED)
    team.runs.append(team.job.pool.submit(team.agents[1].run))
    assert team.runs[1].result(30).state is SUCCEEDED


def test_k_004_02_a_node_that_vanishes_takes_no_other_with_it(elastic: Team) -> None:
    vanished = elastic.job.handler()
    (joining,) = elastic.job.ask(vanished)
    elastic.start(1)
    joining.result(30)
    elastic.starts(1)
    assert vanished._member is not None
    assert vanished._member.session is not None
    lease = vanished._member.session.me.lease
    assert vanished._run_task is not None
    vanished._run_task.cancel()
    elastic.job.loop.loop.call_soon_threadsafe(elastic.job.store.revoke, lease)
    eventually(lambda: elastic.agents[0].did.count("start") == 2, within_s=30)
    assert elastic.counts() == [0]
    assert elastic.agents[0].get_worker_group().group_world_size == 1


def test_agents_of_a_job_get_changes_by_a_push_not_by_the_interval(team: Team) -> None:
    team.start(2)
    team.starts(1)
    team.agents[0].get_worker_group().spec.monitor_interval = 3600
    team.next[1] = FAILED
    eventually(lambda: team.agents[0].did.count("start") == 2, within_s=30)
