"""Convert DLRover's ElasticJob (elastic.iml.github.io/v1alpha1).

Only its workers are converted: parameter servers, chiefs and evaluators are roles, and all nodes are alike here.
"""

from collections.abc import Mapping
from typing import Any

from elasticjob_cli.convert import pods
from elasticjob_cli.convert.fields import Fields, job_of
from elasticjob_cli.convert.result import Converted, Note, NoteKind, manifest

_LEFT_OUT = {
    "optimizeMode": "nothing is tuned automatically: set replicas and resources",
    "brainService": "nothing is tuned automatically: set replicas and resources",
    "enableDynamicSharding": "data is not distributed: shard it by RANK and WORLD_SIZE, and save the position",
    "enableElasticScheduling": "jobs are always elastic between minReplicas and maxReplicas",
    "resourceLimits": "create a ResourceQuota for the namespace",
    "envs": "move them to spec.template.spec.containers[].env",
}
_OTHER_ROLES = "all nodes of an ElasticJob are alike: run it as a job or Deployment of its own"
_WORKER = {
    "autoScale": "create a HorizontalPodAutoscaler for the ElasticJob",
    "restartCount": "spec.backoffLimit counts the failed pods of all nodes",
    "restartTimeout": "spec.lostPodTimeoutSeconds replaces pods that stop answering",
    "priority": "move it to spec.template.spec.priorityClassName",
    "replicaManagerParams": "the operator has no replica managers",
}


def convert(source: Mapping[str, Any]) -> Converted:
    """Return the ElasticJob and its notes."""
    notes: list[Note] = []
    job = job_of(source, notes)
    metadata, spec = pods.metadata(job), job.inner("spec")
    _strategy(spec)
    for name, why in _LEFT_OUT.items():
        spec.leave_out(name, why)
    fields: dict[str, Any] = {"suspend": spec.pop("suspend") or None}
    roles = spec.inner("replicaSpecs")
    worker = roles.inner("worker")
    for name in roles.names():
        why = "there is no master: the agents elect a leader" if "master" in name else _OTHER_ROLES
        roles.leave_out(name, why)
    made, sizes = _worker(worker)
    job.finish()
    return Converted(manifest(metadata, {**fields, **sizes}, made), notes)


def _strategy(spec: Fields) -> None:
    strategy = spec.pop("distributionStrategy")
    if strategy not in {None, "AllreduceStrategy", "CustomStrategy"}:
        why = f"{strategy} has parameter servers, and all nodes of an ElasticJob are alike"
        spec.add_note("distributionStrategy", NoteKind.LEFT_OUT, why)


def _worker(worker: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    template, where = pods.template(worker)
    index = pods.trainer_index(template, "main")
    options = pods.unwrap_command(template, index, where)
    if index:
        options["trainerContainer"] = "main"
    for name, why in _WORKER.items():
        worker.leave_out(name, why)
    if policy := worker.pop("restartPolicy"):
        worker.add_note(
            "restartPolicy", NoteKind.CHANGED, f"{policy}: see spec.maxRestarts and spec.backoffLimit instead"
        )
    sizes = {name: worker.pop(name) for name in ("replicas", "minReplicas", "maxReplicas")}
    return template, pods.resolve_conflict(options, sizes, where)
