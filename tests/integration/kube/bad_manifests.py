"""Manifests that must be refused, with the API server's messages; for tests of the CRD and of `parse_job`."""

from typing import Any

import pytest

from testing.kube.manifests import MINIMAL, REMOVED
from tests.integration.kube.bad_keep import KEEP

POD = "spec.template.spec"
TRAINER = f"{POD}.containers.0"
SIDECAR = {"name": "sidecar", "image": "sidecar:1"}
TWINS = [MINIMAL["spec"]["template"]["spec"]["containers"][0]] * 2


def rule(**fields: Any) -> dict[str, Any]:
    """Return a change that creates one failure rule."""
    return {"spec.failurePolicy": {"rules": [fields]}}


REPLICAS = [
    pytest.param(
        {"spec.replicas": 1},
        "spec.replicas must not be below spec.minReplicas, the fewest nodes that the job runs with",
        id="replicas-below-min",
    ),
    pytest.param(
        {"spec.replicas": 9},
        "spec.replicas must not be above spec.maxReplicas, the most nodes that the job runs with",
        id="replicas-above-max",
    ),
    pytest.param(
        {"spec.minReplicas": 0}, "spec.minReplicas in body should be greater than or equal to 1", id="min-zero"
    ),
    pytest.param(
        {"spec.replicaStep": 2, "spec.allowedReplicas": [2, 4]},
        "spec.allowedReplicas cannot be used together with spec.replicaStep; keep one of them",
        id="step-and-list",
    ),
    pytest.param(
        {"spec.allowedReplicas": [1, 5]},
        "spec.allowedReplicas must have a number from spec.minReplicas (unset: spec.replicas) to spec.replicas",
        id="no-allowed-number-in-range",
    ),
]

WORKERS = [
    pytest.param(
        {"spec.nprocPerNode": "gpu"},
        "spec.nprocPerNode must be a whole number from 1 to 1024, or the word auto",
        id="nproc-word",
    ),
    pytest.param(
        {"spec.nprocPerNode": 0},
        "spec.nprocPerNode must be a whole number from 1 to 1024, or the word auto",
        id="nproc-zero",
    ),
    pytest.param(
        {"spec.maxRestarts": -1},
        "spec.maxRestarts in body should be greater than or equal to 0",
        id="restarts-negative",
    ),
    pytest.param(
        {"spec.cleanPodPolicy": "Never"},
        'spec.cleanPodPolicy: Unsupported value: "Never": supported values: "Running", "All", "None"',
        id="enum",
    ),
    pytest.param(
        {"spec.gracefulShutdown": {"signal": "SIGSTOP"}},
        'spec.gracefulShutdown.signal: Unsupported value: "SIGSTOP": supported values: "SIGTERM"',
        id="signal",
    ),
    pytest.param(
        {"spec.restartBackoff": {"initialSeconds": 400}},
        "spec.restartBackoff.initialSeconds must not be above spec.restartBackoff.maxSeconds",
        id="backoff-order",
    ),
    pytest.param(
        {"spec.rendezvous": {"keepAliveSeconds": 1}},
        "spec.rendezvous.keepAliveSeconds in body should be greater than or equal to 2",
        id="lease-shorter-than-etcd-grants",
    ),
    pytest.param(
        {"spec.failureGraceSeconds": 0.5}, "spec.failureGraceSeconds in body must be of type integer", id="half-second"
    ),
    pytest.param(
        {"spec.agent": {"warmStart": "on"}},
        'spec.agent.warmStart: Unsupported value: "on": supported values: "Auto", "Off"',
        id="warm-start",
    ),
    pytest.param(
        {"spec.agent": {"warmStart": False}},  # an unquoted Off, as YAML reads it
        "spec.agent.warmStart in body must be of type string",
        id="warm-start-without-quotes",
    ),
    pytest.param(
        {"spec.agent": {"shmSizeLimit": "much"}},
        "spec.agent.shmSizeLimit must be a quantity above 0, as 8Gi",
        id="size",
    ),
]

TEMPLATE = [
    pytest.param({"spec.template": REMOVED}, "spec.template: Required value", id="no-template"),
    pytest.param({f"{POD}.containers": []}, "should have at least 1 items", id="no-container"),
    pytest.param({f"{TRAINER}.image": REMOVED}, f"{POD}.containers[0].image: Required value", id="no-image"),
    pytest.param(
        {f"{TRAINER}.command": REMOVED},
        f"{POD}.containers: Required value: the trainer container 'trainer' must have a command: the agent starts it,"
        " and the entry point of an image cannot be known",
        id="no-command",
    ),
    pytest.param({f"{TRAINER}.command": []}, "the trainer container 'trainer' must have a command", id="empty-command"),
    pytest.param(
        {f"{POD}.containers": [*TWINS[:1], SIDECAR], "spec.trainerContainer": "sidecar"},
        "the trainer container 'sidecar' must have a command",
        id="named-trainer-without-command",
    ),
    pytest.param(
        {"spec.trainerContainer": "training"},
        "spec.trainerContainer is 'training', and no container of spec.template.spec.containers has that name",
        id="unknown-trainer",
    ),
    pytest.param(
        {f"{POD}.restartPolicy": "Always"},
        f"{POD}.restartPolicy: Forbidden: the operator sets spec.template.spec.restartPolicy to Never",
        id="restart-policy",
    ),
    pytest.param(
        {f"{POD}.hostname": "node-0"},
        f"{POD}.hostname: Forbidden: the operator sets spec.template.spec.hostname, because every node needs its own",
        id="hostname",
    ),
    pytest.param(
        {f"{POD}.subdomain": "nodes"},
        f"{POD}.subdomain: Forbidden: the operator sets spec.template.spec.subdomain to the job's headless service",
        id="subdomain",
    ),
]

NAMES = [
    pytest.param(
        {"metadata.name": "a" * 52}, "metadata.name must be at most 51 lower-case letters, digits and '-'", id="long"
    ),
    pytest.param(
        {"metadata.name": "digits.v2"}, "metadata.name must be at most 51 lower-case letters, digits and '-'", id="dot"
    ),
    pytest.param({"metadata.name": "3d"}, "begin with a letter", id="digit-first"),
    pytest.param(
        {f"{TRAINER}.name": "Trainer"},
        "a container's name must be lower-case letters, digits and '-', and neither begin nor end with '-'",
        id="container-name",
    ),
    pytest.param(
        {f"{POD}.containers": TWINS},
        "two containers of spec.template.spec.containers have the same name",
        id="same-name-twice",
    ),
    pytest.param(
        {f"{TRAINER}.name": "elasticjob-trainer"},
        "names of containers and ports that begin with elasticjob- are reserved",
        id="reserved-container",
    ),
    pytest.param(
        {f"{TRAINER}.ports": [{"name": "elasticjob-link", "containerPort": 1}]},
        "names of containers and ports that begin with elasticjob- are reserved",
        id="reserved-port",
    ),
    pytest.param(
        {f"{POD}.initContainers": [{"name": "elasticjob-agent"}]},
        "choose another name in spec.template.spec.initContainers",
        id="reserved-init-container",
    ),
    pytest.param(
        {f"{POD}.volumes": [{"name": "elasticjob-agent", "emptyDir": {}}]},
        "choose another name in spec.template.spec.volumes",
        id="reserved-volume",
    ),
]

RULES = [
    pytest.param(
        rule(action="FailJob"),
        "a failure rule must have exactly one of onExitCodes, onPodConditions and onReasons",
        id="no-matcher",
    ),
    pytest.param(
        rule(action="FailJob", onExitCodes={"values": [1]}, onReasons=["Evicted"]),
        "a failure rule must have exactly one of onExitCodes, onPodConditions and onReasons",
        id="two-matchers",
    ),
    pytest.param(
        rule(action="RestartWorkers", onReasons=["Evicted"]),
        "action RestartWorkers goes only with onExitCodes: a pod that failed has no workers to restart",
        id="restart-workers-of-a-failed-pod",
    ),
    pytest.param(
        rule(action="ReplacePod", onExitCodes={"values": [1]}),
        "action ReplacePod goes only with onPodConditions or onReasons: a worker's exit code does not end its pod",
        id="replace-pod-by-exit-code",
    ),
    pytest.param(
        rule(action="FailJob", onExitCodes={"values": [0]}),
        "spec.failurePolicy.rules[0].onExitCodes.values[0] in body should be greater than or equal to 1",
        id="exit-code-zero",
    ),
]

BAD = [*REPLICAS, *WORKERS, *KEEP, *TEMPLATE, *NAMES, *RULES]
UNKNOWN_FIELDS = [
    pytest.param({"spec.replica": 3}, "spec.replica", id="at-the-top"),
    pytest.param({"spec.rendezvous": {"endpoints": ["etcd:2379"]}}, "spec.rendezvous.endpoints", id="nested"),
]
