"""`wait` notices each change at once, and ends when the condition cannot be reached any more."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elasticjob import Cluster, ElasticJob, Phase
from elasticjob.errors import CannotHappen, JobFailed, JobGone, WaitTimeout
from testing.network.proxy import Proxy, proxy
from tests.integration.sdk.conftest import Stage

pytestmark = pytest.mark.kube
LIMIT_S = 30.0


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """Run `act` in a thread beside the body."""
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


def test_wait_returns_as_soon_as_the_phase_is_reached(stage: Stage, job: ElasticJob) -> None:
    with meanwhile(lambda: stage.set_status(job, phase="Running")):
        assert job.wait(phase="Running", timeout_s=LIMIT_S).phase is Phase.RUNNING


def test_wait_returns_at_once_if_the_phase_is_already_reached(stage: Stage, job: ElasticJob) -> None:
    stage.set_status(job, phase="Suspended")
    assert job.wait(phase=Phase.SUSPENDED, timeout_s=0).phase is Phase.SUSPENDED


def test_without_a_goal_success_is_waited_for(stage: Stage, job: ElasticJob) -> None:
    def act() -> None:
        stage.set_status(job, phase="Running")
        stage.set_status(job, phase="Succeeded")

    with meanwhile(act):
        assert job.wait(timeout_s=LIMIT_S).phase is Phase.SUCCEEDED


def test_a_condition_is_waited_for_with_its_status(stage: Stage, job: ElasticJob) -> None:
    def degraded(status: str) -> None:
        moment = "2026-01-01T00:00:00Z"
        condition = {"type": "Degraded", "status": status, "reason": "R", "message": "", "lastTransitionTime": moment}
        stage.set_status(job, conditions=[condition])

    degraded("True")
    with meanwhile(lambda: degraded("False")):
        assert job.wait(condition="Degraded=False", timeout_s=LIMIT_S).status.conditions[0].status == "False"


def test_a_job_that_fails_meanwhile_is_an_error_with_its_reason(stage: Stage, job: ElasticJob) -> None:
    with (
        meanwhile(lambda: stage.set_status(job, phase="Failed", message="too many restarts")),
        pytest.raises(JobFailed, match="job digits failed: too many restarts") as caught,
    ):
        job.wait(phase="Running", timeout_s=LIMIT_S)
    assert caught.value.status.phase is Phase.FAILED


def test_wait_raises_if_an_ended_job_can_never_reach_the_phase(stage: Stage, job: ElasticJob) -> None:
    stage.set_status(job, phase="Succeeded")
    with pytest.raises(CannotHappen, match="has ended as Succeeded, so it can never reach phase Running"):
        job.wait(phase="Running")


def test_wait_raises_if_the_job_is_deleted(stage: Stage, job: ElasticJob) -> None:
    with meanwhile(lambda: stage.namespace.kubectl("delete", "ejob", "digits")), pytest.raises(JobGone):
        job.wait(timeout_s=LIMIT_S)


def test_the_error_after_the_time_limit_has_the_state_of_the_job(stage: Stage, job: ElasticJob) -> None:
    stage.set_status(job, phase="Pending", reason="Unschedulable", message="no node has 8 GPUs")
    message = "did not reach phase Running within 0.2 s; it is Pending, Unschedulable: no node has 8 GPUs"
    with pytest.raises(WaitTimeout, match=message) as caught:
        job.wait(phase="Running", timeout_s=0.2)
    assert isinstance(caught.value, TimeoutError)


@pytest.fixture
def way(stage: Stage, job: ElasticJob, tmp_path: Path) -> Iterator[tuple[Proxy, ElasticJob]]:
    """Yield the job through a network that can be broken."""
    server = stage.namespace.server
    with proxy("127.0.0.1", int(server.url.rpartition(":")[2])) as between:
        config = server.kubeconfig(namespace=stage.namespace.name).read_text()
        path = tmp_path / "through.kubeconfig"
        path.write_text(config.replace(server.url, f"https://{between.endpoint}"))
        cluster = Cluster.connect(kubeconfig=path)
        yield between, ElasticJob.get(job.name, cluster=cluster)
        cluster.close()


def test_an_api_server_that_is_away_for_a_while_is_waited_for(stage: Stage, way: tuple[Proxy, ElasticJob]) -> None:
    between, job = way
    between.refuse()

    def act() -> None:
        stage.set_status(job, phase="Running")
        between.restore()

    with meanwhile(act):
        assert job.wait(phase="Running", timeout_s=LIMIT_S).phase is Phase.RUNNING


def test_an_api_server_that_stays_away_is_reported_at_the_time_limit(way: tuple[Proxy, ElasticJob]) -> None:
    between, job = way
    between.refuse()
    with pytest.raises(WaitTimeout, match=r"its last state is unknown: cannot get the job digits: .*did not answer"):
        job.wait(phase="Running", timeout_s=0.5)
