"""Checks of existing jobs: not picked up by an operator, degraded, image pull errors."""

from collections.abc import Iterator
from typing import Any

from elasticjob.errors import ClusterError, CrdMissing, Forbidden
from elasticjob_api import constants
from elasticjob_cli.doctor.finding import CheckContext, Finding, fail, ok, skip, warn
from elasticjob_cli.doctor.installation_checks import waiting
from elasticjob_cli.doctor.keep_checks import check_kept_steps
from elasticjob_cli.views.text import cut, one_line, parse_time, pluralize

_NOT_PICKED_UP_S = 30.0
_ENDED = ("Succeeded", "Failed", "Suspended")
_MAX_JOBS = 5
_PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


def check_jobs(context: CheckContext) -> Iterator[Finding]:
    """Check the jobs of all namespaces, or of the one that the user may read."""
    try:
        jobs, where = _jobs(context)
    except CrdMissing:
        return  # the check of the CRD reports it
    except ClusterError as error:
        yield skip("jobs", str(error))
        return
    not_picked_up = [job for job in jobs if _is_not_picked_up(job, context.now_s())]
    if not_picked_up:
        message = f"{pluralize(len(not_picked_up), 'job')} without a status, for example {_name(not_picked_up[0])}"
        yield fail("jobs", message, "check that an operator runs and watches the namespace (its option --namespace)")
    troubled = [job for job in jobs if _problems(job)]
    for job in troubled[:_MAX_JOBS]:
        meta = job["metadata"]
        cure = f"elasticjob describe {meta['name']} -n {meta['namespace']}"
        yield warn("jobs", f"{_name(job)}: {cut(_problems(job), 160)}", cure)
    if not not_picked_up and not troubled:
        yield ok("jobs", f"{pluralize(len(jobs), 'job')} in {where}, none with a problem")
    yield from check_kept_steps(context, [job for job in jobs if not _is_ended(job)])
    yield from _images(context, where)


def _jobs(context: CheckContext) -> tuple[list[dict[str, Any]], str]:
    try:
        found = context.cluster.request("GET", f"/apis/{constants.API_VERSION}/{constants.PLURAL}", tried="list jobs")
    except Forbidden:
        namespace = context.cluster.namespace
        path = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/{constants.PLURAL}"
        return list(context.cluster.request("GET", path, tried="list jobs").get("items") or ()), namespace
    return list(found.get("items") or ()), "all namespaces"


def _name(job: dict[str, Any]) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _is_not_picked_up(job: dict[str, Any], now_s: float) -> bool:
    foreign = (job.get("spec") or {}).get("managedBy") not in {None, constants.MANAGED_BY}
    created_s = parse_time(job["metadata"].get("creationTimestamp"))
    return not foreign and not job.get("status") and created_s is not None and now_s - created_s > _NOT_PICKED_UP_S


def _problems(job: dict[str, Any]) -> str:
    status = job.get("status") or {}
    if not status.get("reason") or status.get("phase") in _ENDED:
        return ""
    return one_line(f"{status['reason']}: {status.get('message') or ''}").rstrip(": ")


def _is_ended(job: dict[str, Any]) -> bool:
    return (job.get("status") or {}).get("phase") in _ENDED


def _images(context: CheckContext, where: str) -> Iterator[Finding]:
    path = "/api/v1/pods" if where == "all namespaces" else f"/api/v1/namespaces/{where}/pods"
    query = {"labelSelector": constants.LABEL_JOB_UID}
    try:
        pods = context.cluster.request("GET", path, tried="list pods", query=query).get("items") or ()
    except ClusterError:
        yield skip("images", "you may not list pods")
        return
    reasons = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": waiting(p) for p in pods}
    unpulled = {name: reason for name, reason in reasons.items() if reason.startswith(_PULL)}
    for name, reason in list(unpulled.items())[:_MAX_JOBS]:
        cure = (
            "check the image's name, the registry and imagePullSecrets (for the agent's image: the operator's settings)"
        )
        yield fail("images", f"{name}: {cut(one_line(reason), 160)}", cure)
    if not unpulled:
        yield ok("images", f"no pod of {len(pods)} waits for an image")
