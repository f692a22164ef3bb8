"""Convert a Kubeflow PyTorchJob (kubeflow.org/v1).

Master and Worker become one set of nodes: each round assigns the ranks, and rank 0 may be on any node.
"""

from collections.abc import Mapping
from typing import Any

from elasticjob_cli.convert import pods, torchrun_args
from elasticjob_cli.convert.fields import Fields, job_of
from elasticjob_cli.convert.result import Converted, Note, NoteKind, manifest

_CONTAINER = "pytorch"
_ELASTIC = {
    "rdzvBackend": "the operator and its etcd are the rendezvous",
    "rdzvPort": "the operator and its etcd are the rendezvous",
    "rdzvHost": "the operator and its etcd are the rendezvous",
    "rdzvId": "the id is the job's uid",
    "standalone": "the operator and its etcd are the rendezvous",
    "metrics": "create a HorizontalPodAutoscaler for the ElasticJob: it has the scale subresource",
}


def convert(source: Mapping[str, Any]) -> Converted:
    """Return the ElasticJob and its notes."""
    notes: list[Note] = []
    job = job_of(source, notes)
    metadata, spec = pods.metadata(job), job.inner("spec")
    fields = pods.run_policy(spec.inner("runPolicy"))
    template, options, sizes = _roles(spec.inner("pytorchReplicaSpecs"))
    nproc = spec.pop("nprocPerNode")
    if nproc is not None:
        sizes["nprocPerNode"] = _nproc(spec, "nprocPerNode", nproc)
    fields |= pods.resolve_conflict(options, {**sizes, **_elastic(spec.inner("elasticPolicy"))}, spec)
    job.finish()
    return Converted(manifest(metadata, fields, template), notes)


def _roles(roles: Fields) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return one pod template, the spec fields of the launcher in its command, and the number of nodes."""
    found = {name: roles.inner(name) for name in roles.names() if name in {"Master", "Worker"}}
    if not found:
        roles.add_note("Worker", NoteKind.FILL_IN, "is missing: write the pod template")
        found = {"Worker": roles.inner("Worker")}
    nodes = sum(int(role.pop("replicas", 1)) for role in found.values())
    made = {name: pods.template(role) for name, role in found.items()}
    template, where = made.get("Worker") or made["Master"]
    if len(made) > 1 and made["Master"][0] != made["Worker"][0]:
        found["Master"].add_note(
            "template", NoteKind.LEFT_OUT, "it differs from Worker's, and all nodes have one template"
        )
    index = pods.trainer_index(template, _CONTAINER)
    options = pods.unwrap_command(template, index, where)
    fields: dict[str, Any] = {"replicas": nodes, "trainerContainer": _CONTAINER if index else None}
    policies = [(role, role.pop("restartPolicy")) for role in found.values()]
    for role, policy in policies:
        if policy not in {None, "ExitCode"}:
            role.add_note(
                "restartPolicy", NoteKind.CHANGED, f"{policy}: see spec.maxRestarts and spec.backoffLimit instead"
            )
    fields |= pods.exit_code_rule("ExitCode" if any(p == "ExitCode" for _, p in policies) else None)
    return template, options, fields


def _elastic(policy: Fields) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "minReplicas": policy.pop("minReplicas"),
        "maxReplicas": policy.pop("maxReplicas"),
        "maxRestarts": policy.pop("maxRestarts"),
    }
    if (nproc := policy.pop("nProcPerNode")) is not None:
        fields["nprocPerNode"] = _nproc(policy, "nProcPerNode", nproc)
    notes: list[tuple[str, NoteKind, str]] = []
    pairs = [f"{each.get('key')}={each.get('value')}" for each in policy.pop("rdzvConf") or ()]
    fields |= torchrun_args.conf(",".join(pairs), notes)
    for option, kind, message in notes:
        policy.add_note(option.replace("--rdzv-conf ", "rdzvConf."), kind, message)
    for name, why in _ELASTIC.items():
        policy.leave_out(name, why)
    return {name: value for name, value in fields.items() if value is not None}


def _nproc(where: Fields, name: str, value: Any) -> int | str:
    notes: list[tuple[str, NoteKind, str]] = []
    made = torchrun_args.nproc(str(value), name, notes)
    for path, kind, message in notes:
        where.add_note(path, kind, message)
    return made
