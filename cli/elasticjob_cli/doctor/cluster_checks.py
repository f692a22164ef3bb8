"""Checks of the cluster: the API server and its version, the CRD, the user's permissions, the clocks."""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob.errors import AlreadyExists, ClusterError, CrdMissing, Forbidden, NotFound, Rejected
from elasticjob_api import constants
from elasticjob_cli.doctor.finding import CheckContext, Finding, fail, ok, skip, warn
from elasticjob_cli.doctor.schema import fields_of, own_fields
from elasticjob_cli.views.text import duration, parse_time

_CRD = f"{constants.PLURAL}.{constants.GROUP}"
_CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{_CRD}"
_INSTALL = "elasticjob crd | kubectl apply --server-side -f -"
_OLDEST_MINOR = 30
"""CEL over preserved fields, which the rules of the CRD need, is stable since this minor version."""
_SKEW_S = 2.0
_RIGHTS = (
    (constants.GROUP, constants.PLURAL, "", ("get", "list", "watch", "create", "patch", "delete")),
    ("", "pods", "", ("get", "list")),
    ("", "pods", "log", ("get",)),
    ("", "events", "", ("list",)),
)


def check_server(context: CheckContext) -> Iterator[Finding]:
    """Check that the API server answers, and that it is new enough."""
    info = context.cluster.request("GET", "/version", tried="read the version")
    version = str(info.get("gitVersion") or "?")
    minor = "".join(filter(str.isdigit, str(info.get("minor") or "0"))) or "0"
    if int(minor) < _OLDEST_MINOR:
        cure = "update the cluster; this version may not apply the rules of the CRD"
        yield warn("API server", f"{context.cluster.server} is {version}, older than v1.{_OLDEST_MINOR}", cure)
    else:
        yield ok("API server", f"{context.cluster.server}, {version}; namespace {context.cluster.namespace}")


def check_crd(context: CheckContext) -> Iterator[Finding]:
    """Check that the CRD is installed, established, and not older than this program."""
    try:
        found = context.cluster.request("GET", _CRD_PATH, tried="read the CRD")
    except NotFound:
        yield fail("CRD", f"{_CRD} is not installed", f"{_INSTALL}, or install the chart")
        return
    except Forbidden:
        yield from _served(context)
        return
    conditions = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
    if (conditions.get("Established") or {}).get("status") != "True":
        why = (conditions.get("NamesAccepted") or {}).get("message") or "the API server gives no reason"
        yield fail("CRD", f"{_CRD} is not established: {why}", f"kubectl describe crd {_CRD}")
        return
    yield _compared(found)


def _served(context: CheckContext) -> Iterator[Finding]:
    """Check the CRD by the list of resources, without the permission to read CRDs."""
    try:
        context.cluster.request("GET", f"/apis/{constants.API_VERSION}", tried="list resources")
    except (CrdMissing, NotFound):
        yield fail("CRD", f"{_CRD} is not installed", f"ask an administrator to run: {_INSTALL}")
    else:
        yield ok("CRD", f"{_CRD} is served; comparing versions needs the permission to read CRDs")


def _compared(found: Mapping[str, Any]) -> Finding:
    ours, theirs = own_fields(), fields_of(found)
    if missing := sorted(ours - theirs):
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")  # noqa: PLR2004 -- three are an example
        return warn("CRD", f"it is older than this program: it lacks {shown}", _INSTALL)
    if theirs - ours:
        return warn("CRD", "it is newer than this program", "install the same version of elasticjob as the operator's")
    return ok("CRD", f"{_CRD}/{constants.VERSION}, of this version")


def check_rights(context: CheckContext) -> Iterator[Finding]:
    """Check the permissions of the user in the namespace."""
    namespace = context.cluster.namespace
    denied = [
        f"{verb} {resource}{'/' + sub if sub else ''}"
        for group, resource, sub, verbs in _RIGHTS
        for verb in verbs
        if not _may(context, verb, {"group": group, "resource": resource, "subresource": sub})
    ]
    if denied:
        cure = f"ask an administrator for a role with these verbs in {namespace}, or select another namespace with -n"
        yield fail("your rights", f"in {namespace} you may not {', '.join(denied)}", cure)
    else:
        yield ok("your rights", f"in {namespace}: jobs, pods, logs and events")


def _may(context: CheckContext, verb: str, what: Mapping[str, str]) -> bool:
    """Return whether a SelfSubjectAccessReview allows the verb in the user's namespace."""
    attributes = {"verb": verb, "namespace": context.cluster.namespace, **what}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    found = context.cluster.request("POST", path, tried="check your permissions", body=body)
    return bool((found.get("status") or {}).get("allowed"))


def check_creation(context: CheckContext) -> Iterator[Finding]:
    """Check that a job would be accepted (dry run), and that the API server's clock agrees with this machine."""
    namespace = context.cluster.namespace
    path = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/{constants.PLURAL}"
    before_s = context.now_s()
    try:
        made = context.cluster.request("POST", path, tried="create a trial job", query={"dryRun": "All"}, body=_trial())
    except CrdMissing:
        return  # the check of the CRD reports it
    except Forbidden as error:
        yield skip("a trial job", str(error))
        return
    except (Rejected, NotFound, AlreadyExists, ClusterError) as error:
        yield fail("a trial job", str(error), "check admission webhooks and quotas; the message above has the reason")
        return
    yield ok("a trial job", f"would be accepted in {namespace} (dry run)")
    created_s = parse_time(made["metadata"].get("creationTimestamp"))
    if created_s is not None:
        yield _clock(created_s, before_s, context.now_s())


def _trial() -> dict[str, Any]:
    container = {"name": "trainer", "image": "trial", "command": ["true"]}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "metadata": {"generateName": "doctor-", "name": "doctor-trial"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def _clock(created_s: float, before_s: float, after_s: float) -> Finding:
    """Return the finding for the clock of the API server."""
    # The server's time is cut to whole seconds.
    skew_s = max(created_s - after_s, before_s - created_s - 1.0, 0.0)
    if skew_s > _SKEW_S:
        side = "ahead of" if created_s > after_s else "behind"
        words = f"the API server is {duration(skew_s)} {side} this machine"
        return warn("clock", words, "synchronise both by NTP; ages and timelines are wrong until then")
    return ok("clock", f"API server and this machine agree to {_SKEW_S:g} s")


def check_node_clocks(context: CheckContext) -> Iterator[Finding]:
    """Check that no node renews its lease in the future."""
    # Recovery does not depend on these clocks, but the times in records do.
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    try:
        leases = context.cluster.request("GET", path, tried="read the nodes' leases").get("items") or ()
    except (Forbidden, NotFound):
        yield skip("clocks of nodes", "you may not list the leases in kube-node-lease")
        return
    now_s = context.now_s()
    ahead = {}
    for lease in leases:
        renewed_s = parse_time((lease.get("spec") or {}).get("renewTime"))
        if renewed_s is not None and renewed_s - now_s > _SKEW_S:
            ahead[lease["metadata"]["name"]] = renewed_s - now_s
    if ahead:
        worst = max(ahead, key=ahead.__getitem__)
        words = f"{len(ahead)} of {len(leases)} nodes are ahead, {worst} by {duration(ahead[worst])}"
        yield warn("clocks of nodes", words, "synchronise the nodes by NTP")
    elif leases:
        yield ok("clocks of nodes", f"no lease of {len(leases)} nodes is from the future")
