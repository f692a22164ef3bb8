"""When a job's import profile is kept for later jobs, and under which name they find it."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import WarmStart
from elasticjob_api.job import ElasticJob
from elasticjob_api.spec import Agent
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.ids import random_ids
from elasticjob_operator.model.actions import KeepImportProfile
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.policy.lifecycle.import_profile import profile_name
from elasticjob_operator.policy.lifecycle.spec_record import spec_record
from elasticjob_operator.settings import Settings
from testing.builders import SETTINGS, ago, condition, job, names, pod, record, running, seen, template

WARM = replace(SETTINGS, warm_start=WarmStart.AUTO)


def name_of(of: ElasticJob) -> str:
    return profile_name(of, WARM)


def test_jobs_of_one_image_and_command_share_a_name() -> None:
    assert name_of(job()) == name_of(job(max_restarts=7))
    assert len(name_of(job())) == 32


@pytest.mark.parametrize(
    "container",
    [
        {"image": "another"},
        {"command": ["python", "other.py"]},
        {"args": ["--epochs=3"]},
        {"workingDir": "/elsewhere"},
    ],
)
def test_another_image_or_command_has_another_name(container: dict[str, Any]) -> None:
    assert name_of(job(template=template(**container))) != name_of(job())


def test_a_job_without_warm_starts_has_no_name() -> None:
    assert profile_name(job(), SETTINGS) == ""
    assert profile_name(job(agent=Agent(warm_start=WarmStart.OFF)), WARM) == ""
    assert profile_name(job(agent=Agent(warm_start=WarmStart.AUTO)), SETTINGS) == name_of(job())


def kept(kept_at: tuple[int, bool] | None, *, settings: Settings = WARM, finished: bool = False) -> list[Any]:
    """Return the moments at which the profile of a job is kept now."""
    conditions = (condition("Complete"),) if finished else ()
    ended = ago(1) if finished else ""
    status = JobStatus(rendezvous_round=1, start_time=ago(60), completion_time=ended, conditions=conditions)
    of = job(status=status)
    at = running(0, spec=spec_record(of, record(), names((0,)), suspended=False))
    snapshot = seen(of, at, pod(0), job_state=JobState(profile_kept=kept_at), settings=settings)
    actions = plan(snapshot, random_ids()).actions
    return [action.moment for action in actions if isinstance(action, KeepImportProfile)]


def test_it_is_kept_once_for_each_round() -> None:
    [moment] = kept(None)
    assert moment[1] is False
    assert kept(moment) == []
    assert kept((moment[0] - 1, False)) == [moment]


def test_it_is_kept_once_more_when_the_job_has_finished() -> None:
    [moment] = kept((1, False), finished=True)
    assert moment[1] is True
    assert kept(moment, finished=True) == []
    assert kept(None, finished=True) == [], "it had ended before this process began"


def test_nothing_is_kept_without_warm_starts() -> None:
    assert kept(None, settings=SETTINGS) == []
