"""Checks of jobs that keep steps: room for them in memory, nodes for the copies, and the claim of `persistTo`."""

from collections.abc import Iterable, Iterator
from typing import Any

from elasticjob.errors import ClusterError, NotFound
from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import ElasticJob, parse_stored_job
from elasticjob_api.keep_memory import copies_remark, memory_remark
from elasticjob_api.quantity import bytes_of
from elasticjob_cli.doctor.finding import CheckContext, Finding, ok, skip, warn
from elasticjob_cli.views.text import pluralize, size
from elasticjob_operator.render.persist_mount import persist_volume

_WHAT = "kept steps"
_MAX_FINDINGS = 5
_SHARED = {"ReadWriteMany"}


def check_kept_steps(context: CheckContext, jobs: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    """Check jobs that have not ended; nothing is yielded if none of them keeps steps."""
    keeping = [job for each in jobs if (job := _parsed(each)) is not None]
    if not keeping:
        return
    try:
        largest = _largest_node(context)
    except ClusterError:
        largest = None
        yield skip(_WHAT, "you may not list nodes, so their memory is not compared with spec.keep.sizeLimit")
    found = [finding for job in keeping for finding in _of_job(context, job, largest)]
    yield from found[:_MAX_FINDINGS]
    if not found:
        yield ok(_WHAT, f"{pluralize(len(keeping), 'job')} with room for them in memory")


def _parsed(job: dict[str, Any]) -> ElasticJob | None:
    """Return a job that keeps steps; None for any other, and for one whose status has a fault of its spec."""
    if not (job.get("spec") or {}).get("keep"):
        return None
    try:
        return parse_stored_job(job)
    except InvalidSpec:
        return None


def _of_job(context: CheckContext, job: ElasticJob, largest: int | None) -> Iterator[Finding]:
    name = f"{job.metadata.namespace}/{job.metadata.name}"
    for remark in (memory_remark(job.spec), _node_remark(job, largest), copies_remark(job.spec)):
        if remark:
            cause, _, cure = remark.partition("; ")
            yield warn(_WHAT, f"{name}: {cause}", cure)
    if (claim := _claim_of(job)) is not None:
        yield from _claim_findings(context, job, name, claim)


def _largest_node(context: CheckContext) -> int | None:
    """Return the bytes that pods may have on the largest node; None in a cluster without nodes."""
    nodes = context.cluster.request("GET", "/api/v1/nodes", tried="list nodes").get("items") or ()
    found = [((node.get("status") or {}).get("allocatable") or {}).get("memory") for node in nodes]
    return max((bytes_of(memory) for memory in found if memory), default=None)


def _node_remark(job: ElasticJob, largest: int | None) -> str:
    keep = job.spec.keep
    if keep is None or largest is None or bytes_of(keep.size_limit) < largest:
        return ""
    return f"spec.keep.sizeLimit is {keep.size_limit}, and pods have at most {size(largest)} on a node; lower it"


def _claim_of(job: ElasticJob) -> str | None:
    """Return the name of the claim in which steps are persisted; None if they lie in no claim."""
    volume = persist_volume(job) or {}
    name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    return None if name is None else str(name)


def _claim_findings(context: CheckContext, job: ElasticJob, name: str, claim: str) -> Iterator[Finding]:
    path = f"/api/v1/namespaces/{job.metadata.namespace}/persistentvolumeclaims/{claim}"
    try:
        modes = context.cluster.request("GET", path, tried="read a claim").get("spec", {}).get("accessModes") or ()
    except NotFound:
        yield warn(_WHAT, f"{name}: claim {claim} of spec.keep.persistTo does not exist", "create it: the pods wait")
    except ClusterError:
        yield skip(_WHAT, f"{name}: you may not read claim {claim} of spec.keep.persistTo")
    else:
        if job.spec.effective_max > 1 and not _SHARED & set(modes):
            cause = f"{name}: claim {claim} of spec.keep.persistTo has the access modes {', '.join(modes)}"
            yield warn(_WHAT, cause, "choose one with ReadWriteMany: pods on several nodes write there")
