"""Any manifest is either accepted and rendered, or refused with a message; no other error occurs.

An API server refuses most of these manifests, but a CRD may be old or lack rules.
"""

import copy
import random
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_api.errors import InvalidSpec
from elasticjob_operator.controller.job_parser import parse
from elasticjob_operator.errors import RenderError
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.render.disruption_budget import render_disruption_budget
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.render.service import render_service
from testing import builders
from testing.mutations import mutate

FULL: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[3] / "testing" / "kube" / "full-job.yaml").read_text()
)
IDENTITY = {"namespace": "ns", "uid": "job-uid", "generation": 1, "resourceVersion": "1"}


def outcome(manifest: Any) -> str:
    """Return the outcome of a manifest; unexpected errors are raised."""
    try:
        job = parse(manifest)
        render_pod(PodSource(job, builders.SETTINGS, avoided=("n",)), slot=0, name="full-0-abcde")
    except (InvalidSpec, RenderError) as error:
        return "refused" if str(error) else "refused without a word"
    render_service(job)
    render_disruption_budget(job)
    return "rendered"


def whole() -> dict[str, Any]:
    job = copy.deepcopy(FULL)
    job["metadata"] |= IDENTITY
    return job


def test_the_whole_job_is_rendered() -> None:
    assert outcome(whole()) == "rendered"


@settings(max_examples=500, deadline=None)
@given(rng=st.randoms(use_true_random=False), times=st.integers(1, 3))
def test_a_mutated_job_is_rendered_or_refused(rng: random.Random, times: int) -> None:
    job = whole()
    job["spec"] = mutate(job["spec"], rng, times=times)
    assert outcome(job) in {"rendered", "refused"}


@settings(max_examples=500, deadline=None)
@given(rng=st.randoms(use_true_random=False), times=st.integers(1, 2))
def test_a_mutated_template_is_rendered_or_refused(rng: random.Random, times: int) -> None:
    job = whole()
    job["spec"]["template"] = mutate(job["spec"]["template"], rng, times=times)
    assert outcome(job) in {"rendered", "refused"}
