"""The etcd rendezvous with the interface of agents: rounds, orders, ends; over an in-memory etcd."""

import asyncio
from collections.abc import Iterator

import pytest

from elasticjob_agent.rendezvous.errors import (
    JobFailed,
    RendezvousClosedError,
    RendezvousGracefulExitError,
    RendezvousStateError,
)
from elasticjob_agent.rendezvous.job_rendezvous import JobRendezvous, LocalFailure
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_api.exit_codes import ExitCode
from testing.waiting import eventually
from tests.unit.rendezvous.handlers import Job


@pytest.fixture
def job() -> Iterator[Job]:
    made = Job(2, 2, max_restarts=1)
    yield made
    made.close()


FAILURE = LocalFailure(local_rank=1, exit_code=3, message="ValueError: no")


def test_two_nodes_get_all_ranks_and_one_master_without_a_store(job: Job) -> None:
    infos = job.meet(job.handler(nproc=2), job.handler(nproc=3, role="ps"))
    places = sorted((info.assignment for info in infos if info.assignment), key=lambda place: place.group_rank)
    assert [(p.group_rank, p.nproc, p.world_size, p.role_world_size) for p in places] in (
        [(0, 2, 5, 2), (1, 3, 5, 3)],
        [(0, 3, 5, 3), (1, 2, 5, 2)],
    )
    assert len({info.bootstrap_store_info for info in infos}) == 1
    assert [info.store for info in infos] == [None, None]


def test_the_handler_is_a_job_rendezvous(job: Job) -> None:
    handler = job.bare_handler()
    assert isinstance(handler, JobRendezvous)
    assert (handler.get_backend(), handler.get_run_id(), handler.use_agent_store) == ("etcd", "run", False)
    assert (handler.num_nodes_waiting(), handler.is_closed(), handler.stop_order(), handler.outcome()) == (
        0,
        False,
        None,
        None,
    )


def test_a_node_without_an_offer_gets_no_round(job: Job) -> None:
    with pytest.raises(RendezvousStateError, match="call offer"):
        job.bare_handler().next_rendezvous()


def test_k_004_01_failure_orders_the_other_node_to_stop_and_both_see_restart_count_1(job: Job) -> None:
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    first.workers_failed([FAILURE])
    eventually(second.stop_order, within_s=30, what="order to stop")
    assert second.num_nodes_waiting() == 1
    counts = {info.assignment.restart_count for info in job.meet(first, second) if info.assignment}
    assert counts == {1}
    assert second.num_nodes_waiting() == 0


def test_an_agent_that_stops_failed_workers_without_an_order_does_not_hide_the_failure(job: Job) -> None:
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    first.workers_failed([FAILURE])
    first.workers_stopped()
    assert {info.assignment.restart_count for info in job.meet(first, second) if info.assignment} == {1}


def test_a_restart_by_an_agent_is_charged_and_restarts_the_other_nodes(job: Job) -> None:
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    (again,) = job.ask(first)
    eventually(second.stop_order, within_s=30, what="order to stop")
    job.meet(second)
    place = again.result(30).assignment
    assert place is not None
    assert place.restart_count == 1


def test_k_004_12_both_nodes_get_the_root_cause_when_the_restarts_are_used_up(job: Job) -> None:
    first, second = job.handler(), job.handler()
    for _ in range(2):
        job.meet(first, second)
        first.workers_failed([FAILURE])
    for asked in job.ask(first, second):
        with pytest.raises(JobFailed, match=r"on pod-1 exited with code 3: ValueError: no; maxRestarts 1 is used up"):
            asked.result(30)
    codes = [outcome.code for outcome in job.all(lambda handler: handler.outcome()) if outcome]
    assert codes == [3, ExitCode.PEER_FAILED]


def test_success_of_all_ends_the_job_without_a_failure(job: Job) -> None:
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    first.workers_succeeded()
    second.workers_succeeded()
    eventually(lambda: all(job.all(lambda handler: handler.outcome())), within_s=30, what="both ended")
    with pytest.raises(RendezvousGracefulExitError):
        first.next_rendezvous()
    assert first.is_closed()


def test_b_004_39_failure_elsewhere_takes_a_finished_node_into_the_next_round(job: Job) -> None:
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    first.workers_succeeded()
    second.workers_failed([FAILURE])
    (again,) = job.ask(second)
    eventually(first.num_nodes_waiting, within_s=30, what="a round to be taken")
    assert first.stop_order() is None
    job.meet(first)
    assert again.result(30).world_size == 2


def test_k_004_03_a_leave_closes_nothing_and_the_others_continue() -> None:
    job = Job(1, 2)
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    first.leave()
    eventually(first.stop_order, within_s=30, what="order to stop, after the report to the others")
    first.workers_stopped()
    eventually(second.stop_order, within_s=30, what="order to stop for the other")
    (info,) = job.meet(second)
    assert info.world_size == 1
    assert first.shutdown()
    assert not second.is_closed()
    job.close()


def test_a_report_about_an_older_round_does_not_affect_the_next(job: Job) -> None:
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    proxy, old = first._mailbox, first._assignment
    assert proxy is not None
    assert old is not None
    second.workers_failed([FAILURE])
    job.meet(first, second)
    proxy.failed(old, [FAILURE])
    proxy.stopped(old)
    proxy.succeeded(old)
    job.loop.submit(asyncio.sleep(0)).result(20)
    assert (proxy.phase, proxy.failures) == (Workers.RUNNING, {})


def test_a_node_that_waits_for_the_others_can_leave(job: Job) -> None:
    handler = job.handler()
    (asked,) = job.ask(handler)
    handler.leave()
    with pytest.raises(RendezvousGracefulExitError, match="left"):
        asked.result(30)


def test_a_closed_handler_wakes_a_waiting_agent(job: Job) -> None:
    handler = job.handler()
    (asked,) = job.ask(handler)
    handler.set_closed()
    with pytest.raises(RendezvousClosedError):
        asked.result(30)
    assert handler.is_closed()


def test_a_second_failure_during_the_stop_is_a_record_of_the_same_round(job: Job) -> None:
    first, second = job.handler(), job.handler()
    job.meet(first, second)
    first.workers_failed([FAILURE])
    eventually(second.stop_order, within_s=30, what="order to stop")
    second.workers_failed([LocalFailure(local_rank=0, exit_code=-11, signal="SIGSEGV")])
    assert {info.assignment.restart_count for info in job.meet(first, second) if info.assignment} == {1}
