"""The grammar of `--inject`, and faults that can never be injected."""

from typing import Any

import pytest

from elasticjob_api.job import ElasticJob, parse_job
from elasticjob_cli.errors import InvalidFault
from elasticjob_cli.local.fault_spec import AfterSeconds, AtShare, Fault, FaultKind, parse_fault


def _job(**spec: Any) -> ElasticJob:
    template = {"spec": {"containers": [{"name": "trainer", "command": ["true"]}]}}
    sizes = {"replicas": 3, "minReplicas": 2, "maxReplicas": 4, "nprocPerNode": 2}
    return parse_job(
        {
            "apiVersion": "elasticjob.io/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "j"},
            "spec": {**(spec or sizes), "template": template},
        }
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill-worker", Fault(FaultKind.KILL_WORKER, 1, AtShare(50))),
        ("kill-worker@5s", Fault(FaultKind.KILL_WORKER, 1, AfterSeconds(5))),
        ("kill-worker:rank=7@0%", Fault(FaultKind.KILL_WORKER, 7, AtShare(0))),
        ("kill-agent:slot=0@0.5s", Fault(FaultKind.KILL_AGENT, 0, AfterSeconds(0.5))),
        ("term-agent@100%", Fault(FaultKind.TERM_AGENT, 1, AtShare(100))),
        ("delete-pod:slot=3", Fault(FaultKind.DELETE_POD, 3, AtShare(50))),
        ("scale:4@25%", Fault(FaultKind.SCALE, 4, AtShare(25))),
    ],
)
def test_a_fault_is_parsed(text: str, fault: Fault) -> None:
    assert parse_fault(text, _job()) == fault


@pytest.mark.parametrize("text", ["kill-worker:rank=1@50%", "delete-pod:slot=2@1.5s", "scale:2@10%"])
def test_a_fault_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_fault(text, _job())) == text


@pytest.mark.parametrize("text", ["kill-worker", "delete-pod"])
def test_the_only_rank_or_slot_is_the_default_target(text: str) -> None:
    assert parse_fault(text, _job(replicas=1, nprocPerNode=1)).target == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not a fault; it must be kill-worker[:rank=R], "),
        ("explode", "'explode' is not a fault"),
        ("kill-worker:slot=1", "'slot=1' is not rank=N, where N is a whole number"),
        ("kill-worker:rank=x", "'rank=x' is not rank=N"),
        ("kill-worker:1", "'1' is not rank=N"),
        ("kill-worker:rank=-1", "'rank=-1' is not rank=N"),
        ("delete-pod:rank=1", "'rank=1' is not slot=N"),
        ("kill-worker@soon", "'soon' is not a time; give a share of the progress (50%) or seconds (5s)"),
        ("kill-worker@101%", "'101%' is not a time"),
        ("kill-worker@5", "'5' is not a time"),
        ("scale", "the number of nodes is missing; write scale:N"),
        ("scale:x", "'x' is not N, where N is a whole number"),
        ("scale:5", "the job runs with 2 to 4 nodes (minReplicas, maxReplicas)"),
        ("kill-worker:rank=8", "the highest rank of the job is 7"),
        ("kill-agent:slot=4", "the highest slot of the job is 3"),
    ],
)
def test_anything_else_is_refused_by_one_sentence(text: str, words: str) -> None:
    with pytest.raises(InvalidFault) as caught:
        parse_fault(text, _job())
    assert str(caught.value).startswith(f"--inject {text}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
