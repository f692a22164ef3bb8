"""Checks of existing jobs: not picked up by an operator, degraded, image pull errors."""

from collections.abc import Iterator
from typing import Any

from elasticjob.errors import ClusterError, CrdMissing, Forbidden
from elasticjob_api import constants
from elasticjob_cli.doctor.finding import Finding, Patient, fail, ok, skip, warn
from elasticjob_cli.doctor.installation import waiting
from elasticjob_cli.views.text import counted, cut, moment, one_line

_UNHEARD_S = 30.0
_ENDED = ("Succeeded", "Failed", "Suspended")
_MOST = 5
_PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


def check_jobs(patient: Patient) -> Iterator[Finding]:
    """Of all namespaces, or of the one that may be seen."""
    try:
        jobs, where = _jobs(patient)
    except CrdMissing:
        return  # said already
    except ClusterError as error:
        yield skip("jobs", str(error))
        return
    unheard = [job for job in jobs if _is_unheard(job, patient.now_s())]
    if unheard:
        words = f"{counted(len(unheard), 'job')} without a word of an operator, as {_name(unheard[0])}"
        yield fail("jobs", words, "see that an operator runs and watches the namespace (its option --namespace)")
    troubled = [job for job in jobs if _trouble(job)]
    for job in troubled[:_MOST]:
        meta = job["metadata"]
        cure = f"elasticjob describe {meta['name']} -n {meta['namespace']}"
        yield warn("jobs", f"{_name(job)}: {cut(_trouble(job), 160)}", cure)
    if not unheard and not troubled:
        yield ok("jobs", f"{counted(len(jobs), 'job')} in {where}, none in trouble")
    yield from _images(patient, where)


def _jobs(patient: Patient) -> tuple[list[dict[str, Any]], str]:
    try:
        found = patient.cluster.request("GET", f"/apis/{constants.API_VERSION}/{constants.PLURAL}", tried="list jobs")
    except Forbidden:
        namespace = patient.cluster.namespace
        path = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/{constants.PLURAL}"
        return list(patient.cluster.request("GET", path, tried="list jobs").get("items") or ()), namespace
    return list(found.get("items") or ()), "all namespaces"


def _name(job: dict[str, Any]) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _is_unheard(job: dict[str, Any], now_s: float) -> bool:
    foreign = (job.get("spec") or {}).get("managedBy") not in {None, constants.MANAGED_BY}
    created_s = moment(job["metadata"].get("creationTimestamp"))
    return not foreign and not job.get("status") and created_s is not None and now_s - created_s > _UNHEARD_S


def _trouble(job: dict[str, Any]) -> str:
    status = job.get("status") or {}
    if not status.get("reason") or status.get("phase") in _ENDED:
        return ""
    return one_line(f"{status['reason']}: {status.get('message') or ''}").rstrip(": ")


def _images(patient: Patient, where: str) -> Iterator[Finding]:
    path = "/api/v1/pods" if where == "all namespaces" else f"/api/v1/namespaces/{where}/pods"
    query = {"labelSelector": constants.LABEL_JOB_UID}
    try:
        pods = patient.cluster.request("GET", path, tried="list pods", query=query).get("items") or ()
    except ClusterError:
        yield skip("images", "you may not list pods")
        return
    said = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": waiting(p) for p in pods}
    unpulled = {name: words for name, words in said.items() if words.startswith(_PULL)}
    for name, words in list(unpulled.items())[:_MOST]:
        cure = (
            "see the image's name, the registry, and imagePullSecrets (of the agent's image: the operator's settings)"
        )
        yield fail("images", f"{name}: {cut(one_line(words), 160)}", cure)
    if not unpulled:
        yield ok("images", f"no pod of {len(pods)} waits for an image")
