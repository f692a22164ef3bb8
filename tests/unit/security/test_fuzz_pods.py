"""Statuses, labels and annotations as an API server lets them pass, at random: the operator reads them and plans on.

An API server checks the types of a pod's fields, and not the content of texts. So texts and numbers are odd here and
parts are missing, but no list becomes a number. Through a real one: tests/integration/kube/test_operator_hostile.py.
"""

import copy
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_api import constants
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.controller.job_parser import parse
from elasticjob_operator.informers.rendezvous_store import JobStore
from elasticjob_operator.informers.transform import strip
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.pod import Pod, parse_pod
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.render.pod import render_pod
from testing import builders
from tests.unit.operator.test_hostile_manifests import whole
from tests.unit.operator.test_hostile_records import IDS, JOB, KEYS, RUNNING, require_harmless

TIME = "2026-01-01T00:00:00Z"
STATE = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "m", "signal": 9, "finishedAt": TIME}}
WAITING = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
STATUS: dict[str, Any] = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "why",
    "startTime": TIME,
    "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "x", "message": "y"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"},
    ],
    "containerStatuses": [{"name": "trainer", "state": STATE}, {"name": "sidecar", "state": {"running": {}}}],
    "initContainerStatuses": [{"name": "elasticjob-agent", "state": WAITING}],
}
POD: dict[str, Any] = {
    "metadata": {"name": "j-0-a", "uid": "uid-j-0-a", "creationTimestamp": TIME, "labels": {constants.LABEL_SLOT: "0"}},
    "spec": {
        "nodeName": "n",
        "containers": [{"name": "trainer", "env": [{"name": constants.ENV_PREFIX, "value": "/"}]}],
    },
    "status": STATUS,
}
PHASES = ["Pending", "Running", "Succeeded", "Failed", "Unknown"]
TEXTS = ["", " ", "\x00", "\x1b[31m", "\u202e", "é" * 300, "x" * 32_768, "٣", "-1", "9" * 63, "%s", "\n\n", "<b>"]
NUMBERS = [0, 1, -1, 255, 2**31 - 1, -(2**31)]


def odd(value: Any, rng: random.Random) -> Any:
    """The same shape: parts are missing, a text is another text, a number another number."""
    if isinstance(value, dict):
        return {name: odd(item, rng) for name, item in value.items() if rng.random() > 0.1}
    if isinstance(value, list):
        return [odd(item, rng) for item in value if rng.random() > 0.1]
    if rng.random() > 0.3:
        return value
    if isinstance(value, int):
        return rng.choice(NUMBERS)
    return rng.choice([*TEXTS, *PHASES, TIME, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])


def read(obj: dict[str, Any]) -> Pod:
    """As the operator does: slimmed, and parsed to the same as the whole of it."""
    before = copy.deepcopy(obj)
    pod = parse_pod(strip(Resource.POD, obj))
    assert pod == parse_pod(obj)
    assert obj == before
    return pod


def require_harmless_plan(pod: Pod) -> None:
    """The plan for a running job with this pod in slot 0 harms no other job."""
    held = JobStore(KEYS)
    for number, (key, value) in enumerate(RUNNING.items(), start=1):
        held.put(KeyValue(key, value, create_revision=number, mod_revision=number, version=1, lease=number))
    require_harmless(plan(builders.seen(JOB, held.view(100), pod, builders.pod(1)), IDS))


@settings(max_examples=500, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_any_status_of_a_pod(rng: random.Random) -> None:
    require_harmless_plan(read({**POD, "status": odd(STATUS, rng)}))


@settings(max_examples=300, deadline=None)
@given(
    labels=st.dictionaries(st.sampled_from([constants.LABEL_SLOT, constants.LABEL_JOB_UID, "x"]), st.text(max_size=63))
)
def test_any_labels_of_a_pod(labels: dict[str, str]) -> None:
    """A writer of pods may write labels: the slot of a pod is only in the slot map."""
    require_harmless_plan(read({**POD, "metadata": {**POD["metadata"], "labels": labels}}))


@settings(max_examples=300, deadline=None)
@given(
    where=st.sampled_from(["labels", "annotations"]),
    said=st.dictionaries(st.text(max_size=63), st.text(max_size=300), max_size=5),
)
def test_any_labels_and_annotations_of_a_job(where: str, said: dict[str, str]) -> None:
    """They are the user's: ours in its pods stay what they are."""
    manifest = whole()
    manifest["metadata"][where] = said
    manifest["spec"]["template"].setdefault("metadata", {})[where] = said | {constants.LABEL_SLOT: "7"}
    made = render_pod(PodSource(parse(manifest), builders.SETTINGS), slot=0, name="full-0-abcde")
    assert made["metadata"]["labels"][constants.LABEL_SLOT] == "0"
    assert made["metadata"]["labels"][constants.LABEL_JOB_UID] == "job-uid"
