"""Conversion of other systems' jobs: the fields that are carried over, and notes that name all others."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from elasticjob_api.constants import WarmStart
from elasticjob_api.job import parse_job
from elasticjob_cli.convert import torchrun
from elasticjob_cli.convert.convert import convert_object
from elasticjob_cli.convert.result import Converted, NoteKind
from elasticjob_cli.errors import InvalidManifest

PYTORCHJOB: Mapping[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "mnist", "namespace": "ml", "labels": {"team": "a"}, "finalizers": ["x"], "uid": "u"},
    "spec": {
        "runPolicy": {
            "cleanPodPolicy": "All",
            "backoffLimit": 4,
            "activeDeadlineSeconds": 600,
            "ttlSecondsAfterFinished": 60,
            "schedulingPolicy": {"queue": "q", "minAvailable": 2},
            "mystery": 1,
        },
        "nprocPerNode": "gpu",
        "elasticPolicy": {
            "minReplicas": 1,
            "maxReplicas": 4,
            "maxRestarts": 7,
            "rdzvBackend": "c10d",
            "rdzvConf": [{"key": "last_call_timeout", "value": "20"}, {"key": "read_timeout", "value": "5"}],
            "metrics": [{"type": "Resource"}],
        },
        "pytorchReplicaSpecs": {
            "Worker": {
                "replicas": 3,
                "restartPolicy": "ExitCode",
                "template": {
                    "metadata": {"name": "w", "annotations": {"a": "b"}},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {"name": "sidecar", "image": "s"},
                            {
                                "name": "pytorch",
                                "image": "mnist:1",
                                "command": ["torchrun", "--nproc_per_node=2", "--max-restarts", "1"],
                                "args": ["train.py", "--lr", "1"],
                            },
                        ],
                    },
                },
            }
        },
    },
    "status": {"conditions": []},
}

TORCHELASTIC: Mapping[str, Any] = {
    "apiVersion": "elastic.pytorch.org/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "imagenet"},
    "spec": {
        "rdzvEndpoint": "etcd-service:2379",
        "minReplicas": 1,
        "maxReplicas": 2,
        "replicaSpecs": {
            "Worker": {
                "replicas": 2,
                "restartPolicy": "ExitCode",
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "elasticjob-worker",
                                "image": "torchelastic/examples:0.2.0",
                                "args": ["--nproc_per_node=1", "/workspace/main.py", "--epochs=20"],
                            }
                        ]
                    }
                },
            }
        },
    },
}

DLROVER: Mapping[str, Any] = {
    "apiVersion": "elastic.iml.github.io/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "gpt"},
    "spec": {
        "distributionStrategy": "AllreduceStrategy",
        "optimizeMode": "single-job",
        "enableDynamicSharding": True,
        "replicaSpecs": {
            "dlrover-master": {"replicas": 1},
            "ps": {"replicas": 2},
            "worker": {
                "replicas": 4,
                "restartCount": 3,
                "autoScale": True,
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "main",
                                "image": "gpt:1",
                                "command": ["dlrover-run", "--network-check", "--nnodes=2:4", "--node_unit", "2"],
                                "args": ["--nproc_per_node=8", "train.py"],
                            }
                        ]
                    }
                },
            },
        },
    },
}


def converted(source: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the spec, and the notes by path; the result is a valid ElasticJob."""
    made = convert_object(source, "job.yaml")
    parse_job(made.manifest)
    return dict(made.manifest["spec"]), {note.path: note.message for note in made.notes}


def test_a_pytorchjob_keeps_sizes_policies_and_the_pod() -> None:
    spec, _ = converted(PYTORCHJOB)
    template = spec.pop("template")
    assert spec == {
        "replicas": 3,
        "minReplicas": 1,
        "maxReplicas": 4,
        "nprocPerNode": "auto",
        "maxRestarts": 7,
        "backoffLimit": 4,
        "cleanPodPolicy": "All",
        "ttlSecondsAfterFinished": 60,
        "activeDeadlineSeconds": 600,
        "trainerContainer": "pytorch",
        "failurePolicy": spec["failurePolicy"],
        "rendezvous": {"lastCallTimeoutSeconds": 20},
    }
    assert template["spec"]["containers"][1] == {
        "name": "pytorch",
        "image": "mnist:1",
        "command": ["python", "-u", "train.py", "--lr", "1"],
    }
    assert template["metadata"] == {"annotations": {"a": "b"}}


@pytest.mark.parametrize(
    "path",
    [
        "metadata.finalizers",
        "spec.runPolicy.schedulingPolicy.queue",
        "spec.runPolicy.schedulingPolicy.minAvailable",
        "spec.runPolicy.mystery",
        "spec.elasticPolicy.rdzvBackend",
        "spec.elasticPolicy.rdzvConf.read_timeout",
        "spec.elasticPolicy.metrics",
        "spec.pytorchReplicaSpecs.Worker.template.spec.restartPolicy",
        "spec.pytorchReplicaSpecs.Worker.template.metadata.name",
        "spec.nprocPerNode",
        "status",
        "spec.launcher's maxRestarts",
    ],
)
def test_fields_that_a_pytorchjob_loses_are_named(path: str) -> None:
    assert path in converted(PYTORCHJOB)[1]


def test_master_and_workers_are_nodes_alike_and_a_differing_master_is_noted() -> None:
    source = copy.deepcopy(dict(PYTORCHJOB))
    roles = source["spec"]["pytorchReplicaSpecs"]
    source["spec"]["elasticPolicy"] = {}
    roles["Master"] = {"template": {"spec": {"containers": [{"name": "pytorch", "image": "m", "command": ["true"]}]}}}
    spec, notes = converted(source)
    assert spec["replicas"] == 4
    assert "spec.pytorchReplicaSpecs.Master.template" in notes


def test_torchelastics_arguments_are_those_of_its_launcher() -> None:
    spec, notes = converted(TORCHELASTIC)
    assert (spec["replicas"], spec["minReplicas"], spec["maxReplicas"], spec["nprocPerNode"]) == (2, 1, 2, 1)
    container = spec["template"]["spec"]["containers"][0]
    assert container["command"] == ["python", "-u", "/workspace/main.py", "--epochs=20"]
    assert "args" not in container
    assert "spec.rdzvEndpoint" in notes


def test_dlrovers_workers_are_kept_with_their_unit_and_other_roles_are_named() -> None:
    spec, notes = converted(DLROVER)
    assert (spec["replicas"], spec["minReplicas"], spec["maxReplicas"], spec["replicaStep"]) == (4, 2, 4, 2)
    assert spec["nprocPerNode"] == 8
    assert {
        "spec.replicaSpecs.ps",
        "spec.replicaSpecs.dlrover-master",
        "spec.replicaSpecs.worker.restartCount",
        "spec.optimizeMode",
        "spec.enableDynamicSharding",
        "spec.replicaSpecs.worker.template.spec.containers[0].command --network-check",
    } <= notes.keys()


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}" if path else name)
    else:
        yield path


@pytest.mark.parametrize("source", [PYTORCHJOB, TORCHELASTIC, DLROVER], ids=["pytorchjob", "torchelastic", "dlrover"])
def test_an_unknown_field_is_named_at_every_level(source: Mapping[str, Any]) -> None:
    # At every object of the source that is not part of the pod.
    places = {path.rpartition(".")[0] for path in leaves(source) if ".template" not in path}
    for place in sorted(places - {"", "metadata.labels"}):
        changed = copy.deepcopy(dict(source))
        at: Any = changed
        for step in place.split("."):
            at = at[step]
        at["novelty"] = 1
        notes = convert_object(changed, "job.yaml").notes
        wholly_left_out = {"spec.replicaSpecs.dlrover-master", "spec.replicaSpecs.ps", "status"}
        assert place in wholly_left_out or f"{place}.novelty" in {note.path for note in notes}, place


def test_an_image_that_starts_the_training_by_itself_must_be_filled_in() -> None:
    source = copy.deepcopy(dict(PYTORCHJOB))
    container = source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][1]
    del container["command"], container["args"]
    made = convert_object(source, "job.yaml")
    assert not made.complete
    assert "containers[1].command" in next(note.path for note in made.notes if note.kind is NoteKind.FILL_IN)


def line(text: str, *, image: str = "i", name: str = "") -> Converted:
    return torchrun.convert(text.split(), name=name, image=image)


def test_a_torchrun_command_line_becomes_a_job() -> None:
    made = line("torchrun --nnodes 2:4 --nproc-per-node 8 --max-restarts=3 --rdzv-id Job_1 -m pkg.train --lr 1")
    assert made.manifest["metadata"] == {"name": "job-1"}
    spec = dict(made.manifest["spec"])
    assert spec.pop("template")["spec"]["containers"][0]["command"] == [
        "python", "-u", "-m", "pkg.train", "--lr", "1",
    ]  # fmt: skip
    assert spec == {"replicas": 4, "minReplicas": 2, "maxReplicas": 4, "nprocPerNode": 8, "maxRestarts": 3}
    assert [note.path for note in made.notes] == ["--rdzv-id"]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("python3 -m torch.distributed.run train.py", ["python3", "-u", "train.py"]),
        ("/opt/bin/torchrun --no-python ./train.sh -x", ["./train.sh", "-x"]),
        ("python -m torch.distributed.launch --use_env --nproc_per_node=2 train.py", ["python", "-u", "train.py"]),
        ("torchrun --standalone train.py --nnodes 5", ["python", "-u", "train.py", "--nnodes", "5"]),
    ],
)
def test_every_spelling_of_a_launcher_is_removed(text: str, command: list[str]) -> None:
    assert line(text).manifest["spec"]["template"]["spec"]["containers"][0]["command"] == command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mpirun -n 4 train.py", "mpirun is not a known launcher"),
        ("torchrun --nnodes 4:2 train.py", "MIN must be at least 1 and at most MAX"),
        ("torchrun --nnodes 2", "has no script"),
        ("torchrun --nnode 2 train.py", "torchrun: unrecognized arguments: --nnode"),
    ],
)
def test_a_command_line_that_cannot_be_parsed_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidManifest, match=words):
        line(text)


def test_every_option_of_torchrun_is_carried_over_or_named() -> None:
    given = "--rdzv-endpoint h:1 --rdzv-backend c10d --node-rank 1 --master-addr h --log-dir l -t 3 -r 1 --role r"
    paths = {note.path for note in line(f"torchrun {given} --monitor-interval 5 train.py").notes}
    assert {"--rdzv-endpoint", "--rdzv-backend", "--node-rank", "--master-addr", "--log-dir", "--tee"} <= paths
    assert {"--redirects", "--role", "--monitor-interval"} <= paths


def test_the_agents_own_option_for_warm_starts_becomes_its_field() -> None:
    made = line("elasticjob-agent --nnodes 2 --warm-start Auto train.py")
    assert made.manifest["spec"]["agent"] == {"warmStart": "Auto"}
    assert parse_job(made.manifest).spec.agent.warm_start is WarmStart.AUTO
    assert made.notes == []


@pytest.mark.parametrize("source", [[], {"kind": "Job", "apiVersion": "batch/v1"}, {"a": 1}])
def test_what_cannot_be_converted_is_refused(source: Any) -> None:
    with pytest.raises(InvalidManifest):
        convert_object(source, "job.yaml")
