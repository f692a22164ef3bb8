"""Changes that the page receives: each job once, the newer of two with one name, and deleted jobs."""

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.records import Progress, StartReport
from elasticjob_api.rendezvous_state import Cause, Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus, KeepStatus, NodeStatus, ProgressStatus, RoundStatus, StartStatus
from elasticjob_operator.ui import PageState
from elasticjob_operator.ui.serialize import METRICS_LIMIT, RANKS_LIMIT, TEXT_LIMIT, job_details, job_row
from elasticjob_operator.ui.state import MAX_ROUNDS
from testing.builders import NOW_S
from tests.unit.operator.ui.page_states import (
    HOSTILE,
    PER_NODE,
    hostile,
    key,
    large,
    obj,
    observed,
    report,
    samples,
    small,
    state,
)


def noted(*names: str) -> PageState:
    board = PageState()
    for name in names:
        board.reconciled(key(name), obj(), JobStatus(), RendezvousView(), NOW_S)
    return board


def since(board: PageState, version: int) -> tuple[list[str], list[tuple[str, str]]]:
    news = board.since(version)
    assert news is not None
    return [shown.key.name for shown in news[0]], news[1]


def test_only_changed_jobs_are_sent_again() -> None:
    board = noted("a", "b")
    before = board.version
    board.reconciled(key("b"), obj(), JobStatus(), RendezvousView(), NOW_S)
    assert since(board, before) == (["b"], [])


def test_a_deleted_job_is_reported_until_a_successor_replaces_it() -> None:
    board = noted("a")
    before = board.version
    board.deleted(key("a"))
    assert since(board, before) == ([], [("team", "a")])
    board.reconciled(key("a", uid="other"), obj(), JobStatus(), RendezvousView(), NOW_S)
    assert since(board, before) == (["a"], [])


def test_the_deletion_of_an_earlier_job_keeps_its_successor() -> None:
    board = noted("a")
    board.reconciled(key("a", uid="other"), obj(), JobStatus(), RendezvousView(state=state()), NOW_S)
    board.deleted(key("a"))
    assert board.jobs["team", "a"].key.uid == "other"


def test_a_client_that_missed_too_many_deletions_must_read_all() -> None:
    board = PageState()
    for i in range(1100):
        board.reconciled(key(f"j{i}"), obj(), JobStatus(), RendezvousView(), NOW_S)
        board.deleted(key(f"j{i}"))
    assert board.since(0) is None
    assert board.since(board.version) == ([], [])


async def test_a_change_wakes_each_waiting_client() -> None:
    board = noted("a")
    waiting = asyncio.create_task(board.changed(board.version))
    await asyncio.sleep(0)
    board.deleted(key("a"))
    async with asyncio.timeout(20):
        await waiting


def test_failures_remain_after_etcd_has_deleted_them() -> None:
    board = PageState()
    large(board)
    board.reconciled(key("large"), obj(), JobStatus(), RendezvousView(state=state(5)), NOW_S)
    [failure] = job_details(board.jobs["team", "large"])["failures"]
    assert failure["name"] == "2/0004.5"
    assert failure["tail"].endswith("Segmentation fault\n")


def test_a_large_job_is_complete_and_its_ranks_are_in_order() -> None:
    board = PageState()
    large(board)
    details = job_details(board.jobs["team", "large"])
    assert [node["first"] for node in details["ranks"]] == list(range(0, 1000, 8))
    assert [each["round"] for each in details["rounds"]] == [1, 2, 3, 4]
    assert details["rounds"][2]["steps"]["stop"] == 0.3
    assert len(json.dumps(details)) < 100_000


def shown_step(stored: int, *reported: tuple[int, int]) -> int | None:
    """Return the step on the page of a job in round 2 whose agents reported these pairs of step and round."""
    sampled = {
        Member(i, f"{i:08x}"): samples(i, Progress(step, 100), round_=round_)
        for i, (step, round_) in enumerate(reported)
    }
    board, status = PageState(), JobStatus(progress=ProgressStatus(step=stored, total=100))
    board.reconciled(key(), obj(), status, RendezvousView(membership=Membership(2, ()), samples=sampled), NOW_S)
    found: int | None = job_row(board.jobs["team", "job"])["progress"]["step"]
    return found


def test_progress_is_the_highest_reported_and_remains_after_the_agents_end() -> None:
    assert shown_step(7, (5, 2), (9, 2)) == 9
    assert shown_step(7) == 7


def test_progress_is_of_the_round_that_the_status_shows() -> None:
    assert shown_step(7, (5, 2), (9, 1)) == 5, "as in status.progress, also after the training resumed at a lower step"
    assert shown_step(7, (9, 1)) == 7


def test_the_size_of_a_job_on_the_page_is_limited() -> None:
    board, long = PageState(), "x" * 10_000
    progress = ProgressStatus(step=1, metrics={f"m{i}": long for i in range(1000)})
    status = JobStatus(reason=long, message=long, progress=progress)
    reports = {Member(i, f"{i:08x}"): report(i, pod=f"p{i}") for i in range(RANKS_LIMIT // 8 + 50)}
    forming = replace(state(1, RoundPhase.FORMING), message=long)
    board.reconciled(key(), obj(), status, RendezvousView(state=forming, reports=reports), NOW_S)
    details = job_details(board.jobs["team", "job"])
    assert (len(details["reason"]), len(details["rounds"][0]["detail"])) == (TEXT_LIMIT, TEXT_LIMIT)
    assert len(details["progress"]["metrics"]) == METRICS_LIMIT
    assert sum(len(node["letters"]) for node in details["ranks"]) == RANKS_LIMIT


def test_texts_of_a_job_are_unchanged_in_json() -> None:
    board = PageState()
    hostile(board)
    details = job_details(board.jobs["team", "hostile"])
    assert json.loads(json.dumps(details))["failures"][0]["tail"] == HOSTILE


def test_the_cause_of_a_round_is_that_of_the_status() -> None:
    board, failed = PageState(), "rank 0 on j-0-a was killed by SIGKILL"
    status = JobStatus(rounds=(RoundStatus(round=1, start_time="", message=failed),))
    board.reconciled(key(), obj(), status, RendezvousView(state=state()), NOW_S)
    assert job_details(board.jobs["team", "job"])["rounds"][0]["detail"] == failed


def rounds_of(*history: tuple[float, RendezvousState]) -> list[dict[str, Any]]:
    """Return the rounds on the page after these states at these times."""
    board, status = PageState(), JobStatus()
    for now_s, at in history:
        status = observed(board, key(), status, RendezvousView(state=at), now_s)
    rounds: list[dict[str, Any]] = job_details(board.jobs["team", "job"])["rounds"]
    return rounds


def test_a_round_forms_becomes_active_and_ends_with_the_next() -> None:
    again = state(2, RoundPhase.FORMING, cause=Cause.WORKER_FAILED, message="rank 3 raised")
    first, second = rounds_of((10.0, state(1, RoundPhase.FORMING)), (11.0, state(1)), (20.0, again))
    assert [first[name] for name in ("opened", "active", "ended", "end")] == [10.0, 11.0, 20.0, "forming"]
    assert (first["nodes"], first["workers"]) == (2, 16)
    assert [second[name] for name in ("cause", "detail", "active", "end")] == [
        "WorkerFailed",
        "rank 3 raised",
        None,
        "",
    ]


def test_a_round_that_ended_with_the_suspension_is_followed_by_it() -> None:
    first, second = rounds_of(
        (1.0, state(1)), (5.0, state(1, RoundPhase.SUSPENDED)), (9.0, state(2, cause=Cause.RESUMED))
    )
    assert [(each["ended"], each["end"]) for each in (first, second)] == [(5.0, "suspended"), (None, "")]


def test_the_last_round_ends_as_the_job_does() -> None:
    [only] = rounds_of((1.0, state(1)), (9.0, state(1, RoundPhase.SUCCEEDED)))
    assert (only["ended"], only["end"]) == (9.0, "succeeded")


def test_rounds_that_have_left_the_status_remain_up_to_a_limit() -> None:
    rounds = rounds_of(*((float(number), state(number)) for number in range(1, MAX_ROUNDS + 10)))
    assert (len(rounds), rounds[0]["round"]) == (MAX_ROUNDS, 10)


def test_two_hundred_jobs_are_a_short_list() -> None:
    board = PageState()
    small(board, 200)
    assert len(json.dumps([job_row(shown) for shown in board.jobs.values()])) < 120_000


def test_a_node_has_the_start_of_its_workers_by_its_report_or_else_by_the_status() -> None:
    board, warm = PageState(), replace(report(0), start=StartReport(warm=PER_NODE, first_output_s=0.05))
    ended = NodeStatus(name="job-1", pod_name="p1", start=StartStatus(kind="Cold", reason="why"))
    plain = NodeStatus(name="job-2", pod_name="p2")
    view = RendezvousView(reports={Member(0, "0" * 8): warm})
    board.reconciled(key(), obj(), JobStatus(nodes=(ended, plain)), view, NOW_S)
    found = {node["pod"]: node["start"] for node in job_details(board.jobs["team", "job"])["ranks"]}
    assert found == {
        warm.pod: {"kind": "Warm", "firstOutputMilliseconds": 50},
        "p1": {"kind": "Cold", "reason": "why"},
        "p2": None,
    }


def test_a_job_that_keeps_steps_has_them_on_its_page_with_a_short_reason() -> None:
    board = PageState()
    board.reconciled(key(), obj(), JobStatus(), RendezvousView(), NOW_S)
    assert job_details(board.jobs["team", "job"])["keep"] is None
    kept = KeepStatus(step=3, round=1, copies=1, bytes=9, degraded="x" * 9999, persist_error="y" * 9999)
    board.reconciled(key(), obj(), JobStatus(keep=kept), RendezvousView(), NOW_S)
    shown = job_details(board.jobs["team", "job"])["keep"]
    assert (len(shown.pop("degraded")), len(shown.pop("persistError"))) == (TEXT_LIMIT, TEXT_LIMIT)
    times = {"committedTime": None, "persistedTime": None}
    assert shown == {"step": 3, "round": 1, "copies": 1, "bytes": 9, "persistTo": "", **times}


def test_a_job_that_persists_steps_has_the_directory_and_the_times_on_its_page() -> None:
    board, at = PageState(), "2026-01-01T00:00:00Z"
    kept = KeepStatus(step=3, round=1, committed_time=at, persisted_step=2, persisted_time=at)
    job = {**obj(), "spec": {"keep": {"sizeLimit": "1Gi", "persistTo": "/ckpt"}}}
    board.reconciled(key(), job, JobStatus(keep=kept), RendezvousView(), NOW_S)
    shown = job_details(board.jobs["team", "job"])["keep"]
    found = shown["persistTo"], shown["persistedStep"], shown["committedTime"], shown["persistedTime"]
    assert found == ("/ckpt", 2, 1_767_225_600.0, 1_767_225_600.0)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_values_that_are_not_numbers_are_left_out(wrong: float) -> None:
    board = PageState()
    odd, member = replace(samples(0), cpu_percent=(wrong,)), Member(0, "0" * 8)
    view = RendezvousView(reports={member: report(0)}, samples={member: odd})
    board.reconciled(key(), obj(), JobStatus(), view, NOW_S)
    details = job_details(board.jobs["team", "job"])
    assert json.loads(json.dumps(details, allow_nan=False))["ranks"][0]["cpu"] == [None]


def test_a_node_has_the_samples_of_its_workers_alone() -> None:
    board, member = PageState(), Member(0, "0" * 8)
    short = replace(report(0), workers=report(0).workers[:2])
    view = RendezvousView(reports={member: short, Member(1, "1" * 8): report(1)}, samples={member: samples(0)})
    board.reconciled(key(), obj(), JobStatus(), view, NOW_S)
    sampled, other = job_details(board.jobs["team", "job"])["ranks"]
    assert (sampled["cpu"], sampled["memory"]) == ([20.0, 23.0], [1 << 30, 2 << 30])
    assert (other["cpu"], other["memory"]) == ([], [])
