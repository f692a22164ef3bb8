"""Convert TorchElastic's ElasticJob (elastic.pytorch.org/v1alpha1), another resource of the same name.

Its images start the launcher by themselves, so `args` without a command are the launcher's options.
"""

from collections.abc import Mapping
from typing import Any

from elasticjob_cli.convert import pods
from elasticjob_cli.convert.fields import job_of
from elasticjob_cli.convert.result import Converted, Note, NoteKind, manifest


def convert(source: Mapping[str, Any]) -> Converted:
    """Return the ElasticJob and its notes."""
    notes: list[Note] = []
    job = job_of(source, notes)
    metadata, spec = pods.metadata(job), job.inner("spec")
    fields = pods.run_policy(spec.inner("runPolicy")) if "runPolicy" in spec else {}
    for name in ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"):
        if name in spec:
            fields[name] = spec.pop(name)
    spec.leave_out("rdzvEndpoint", "the operator and its etcd are the rendezvous: the job needs no etcd of its own")
    roles = spec.inner("replicaSpecs")
    worker = roles.inner("Worker")
    template, where = pods.template(worker)
    if policy := worker.pop("restartPolicy"):
        worker.add_note(
            "restartPolicy", NoteKind.CHANGED, f"{policy}: see spec.maxRestarts and spec.backoffLimit instead"
        )
    index = pods.trainer_index(template, "elasticjob-worker")
    options = pods.unwrap_command(template, index, where, bare_arguments_are_launchers=True)
    if index:
        fields["trainerContainer"] = template["spec"]["containers"][index]["name"]
    sizes = {
        "replicas": worker.pop("replicas"),
        "minReplicas": spec.pop("minReplicas"),
        "maxReplicas": spec.pop("maxReplicas"),
    }
    fields |= pods.resolve_conflict(options, sizes, where)
    job.finish()
    return Converted(manifest(metadata, fields, template), notes)
