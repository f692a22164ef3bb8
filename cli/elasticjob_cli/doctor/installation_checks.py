"""Checks of the installation: the operator and its permissions, etcd as the operator reports it, images, versions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob.errors import ClusterError, Forbidden
from elasticjob_api import constants
from elasticjob_cli.doctor.finding import CheckContext, Finding, fail, ok, skip, warn

_OPERATOR = "app.kubernetes.io/part-of=elasticjob,app.kubernetes.io/component=operator"
_ETCD = "app.kubernetes.io/part-of=elasticjob,app.kubernetes.io/component=etcd"
_INSTALL = "kubectl apply --server-side -f crds -f deploy, or install the chart (docs/helm.md)"
_LINES = 400
_LEADER_ELECT = "--leader-elect"
"""The operator's option for the election of a leader."""
_NEEDED = (
    ("list", "elasticjob.io", "elasticjobs", ""),
    ("patch", "elasticjob.io", "elasticjobs", "status"),
    ("create", "", "pods", ""),
    ("delete", "", "pods", ""),
    ("patch", "", "services", ""),
    ("patch", "", "events", ""),
    ("patch", "policy", "poddisruptionbudgets", ""),
)


def check_operator(context: CheckContext) -> Iterator[Finding]:
    """Check that there is an operator, that it is ready, and that one replica acts at a time."""
    try:
        found = _list(context, "/apis/apps/v1/deployments", _OPERATOR, "look for the operator")
    except Forbidden:
        yield skip("operator", "you may not list Deployments of all namespaces", "ask an administrator to run doctor")
        return
    if not found:
        yield fail("operator", "there is no Deployment of the operator in any namespace", _INSTALL)
        return
    for each in found:
        yield from _deployment(context, each)


def _deployment(context: CheckContext, deployment: Mapping[str, Any]) -> Iterator[Finding]:
    meta, status = deployment["metadata"], deployment.get("status") or {}
    context.namespace = meta["namespace"]
    where, wanted = f"{meta['namespace']}/{meta['name']}", (deployment.get("spec") or {}).get("replicas", 1)
    image = _image(deployment)
    if not wanted:
        cure = f"kubectl -n {meta['namespace']} scale deployment {meta['name']} --replicas=1"
        yield fail("operator", f"{where} is scaled to 0", cure)
    elif not status.get("availableReplicas"):
        why = _why_not_ready(context, deployment)
        cure = f"kubectl -n {meta['namespace']} logs deployment/{meta['name']}"
        yield fail("operator", f"{where} ({image}) is not ready{': ' + why if why else ''}", cure)
    elif is_repeating_work(deployment):
        cure = f"kubectl -n {meta['namespace']} scale deployment {meta['name']} --replicas=1"
        yield warn("operator", f"{where} has {wanted} replicas, which repeat each other's work", cure)
    else:
        yield ok("operator", f"{where} is ready, image {image}")
    yield from _versions(context, image)
    yield from _operators_rights(context, deployment)


def is_repeating_work(deployment: Mapping[str, Any]) -> bool:
    """Return whether the operator has several replicas that all act: with an election, one does."""
    container = _container(deployment)
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    return (deployment.get("spec") or {}).get("replicas", 1) > 1 and _LEADER_ELECT not in arguments


def _container(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def _image(deployment: Mapping[str, Any]) -> str:
    return str(_container(deployment).get("image") or "?")


def _versions(context: CheckContext, image: str) -> Iterator[Finding]:
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    if not tag or not tag.lstrip("v")[:1].isdigit():
        yield skip(
            "versions", f"this program is {context.version}; the operator's image tag {tag or 'latest'} has no version"
        )
    elif tag.lstrip("v") != context.version:
        yield warn(
            "versions", f"this program is {context.version}, the operator {tag}", "install the same version of both"
        )
    else:
        yield ok("versions", f"program and operator are {context.version}")


def _why_not_ready(context: CheckContext, deployment: Mapping[str, Any]) -> str:
    """Return the first reason that a pod of the operator reports."""
    namespace = deployment["metadata"]["namespace"]
    for pod in _list(context, f"/api/v1/namespaces/{namespace}/pods", _OPERATOR, "look at the operator's pods"):
        if reason := waiting(pod):
            return reason
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    return next((str(c.get("message")) for c in conditions if c.get("status") == "False"), "")


def waiting(pod: Mapping[str, Any]) -> str:
    """Return the reason why a container of a pod does not run; empty if all run."""
    status = pod.get("status") or {}
    for each in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        state = (each.get("state") or {}).get("waiting") or {}
        if state.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
            return f"{state['reason']}: {state.get('message') or 'no message'}"
    scheduled = [c for c in status.get("conditions") or () if c["type"] == "PodScheduled" and c["status"] == "False"]
    return f"{scheduled[0].get('reason')}: {scheduled[0].get('message')}" if scheduled else ""


def _operators_rights(context: CheckContext, deployment: Mapping[str, Any]) -> Iterator[Finding]:
    pod = deployment["spec"]["template"]["spec"]
    account = f"{deployment['metadata']['namespace']}:{pod.get('serviceAccountName') or 'default'}"
    try:
        denied = [
            f"{verb} {resource}{'/' + sub if sub else ''}"
            for verb, group, resource, sub in _NEEDED
            if not _account_may(context, account, verb, {"group": group, "resource": resource, "subresource": sub})
        ]
    except Forbidden:
        yield skip("operator's rights", "you may not check the permissions of other accounts")
        return
    if denied:
        words = f"the service account {account} may not {', '.join(denied)} in {context.cluster.namespace}"
        yield fail("operator's rights", words, "kubectl apply -f deploy/rbac.yaml, or see rbac in the chart's values")
    else:
        yield ok("operator's rights", f"{account} has the permissions that it needs in {context.cluster.namespace}")


def _account_may(context: CheckContext, account: str, verb: str, what: Mapping[str, str]) -> bool:
    attributes = {"verb": verb, "namespace": context.cluster.namespace, **what}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{account.partition(':')[0]}"],
            "resourceAttributes": attributes,
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    found = context.cluster.request("POST", path, tried="check the operator's permissions", body=body)
    return bool((found.get("status") or {}).get("allowed"))


def check_etcd(context: CheckContext) -> Iterator[Finding]:
    """Check etcd by the operator's log, and by its pods if it is the chart's etcd."""
    if not context.namespace:
        return
    yield from _etcd_pods(context)
    try:
        lines = _operator_log_lines(context)
    except ClusterError:
        yield skip("etcd", "the operator's log cannot be read")
        return
    signs = (constants.LOG_ETCD_UNAVAILABLE, constants.LOG_ETCD_AVAILABLE)
    last = next((line for line in reversed(lines) if any(sign in line for sign in signs)), "")
    if constants.LOG_ETCD_UNAVAILABLE in last:
        cure = "check that etcd runs, and --etcd-endpoints of the operator; running jobs continue meanwhile"
        yield fail("etcd", last[last.index(constants.LOG_ETCD_UNAVAILABLE) :], cure)
    elif lines:
        yield ok("etcd", "the operator reports no fault of etcd")


def _operator_log_lines(context: CheckContext) -> list[str]:
    pods = _list(context, f"/api/v1/namespaces/{context.namespace}/pods", _OPERATOR, "look at the operator's pods")
    lines: list[str] = []
    for pod in pods:
        path = f"/api/v1/namespaces/{context.namespace}/pods/{pod['metadata']['name']}/log"
        query = {"tailLines": _LINES}
        with context.cluster.lines(path, tried="read the operator's log", query=query, silence_s=10.0) as found:
            lines += [_log_message(line.decode(errors="replace")) for line in found]
    return lines


def _log_message(line: str) -> str:
    """Return the message of a line of the operator's log, which is a JSON object or plain text."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return line
    return str(record.get("message")) if isinstance(record, dict) else line


def _etcd_pods(context: CheckContext) -> Iterator[Finding]:
    path = f"/apis/apps/v1/namespaces/{context.namespace}/statefulsets"
    try:
        found = _list(context, path, _ETCD, "look for etcd")
    except ClusterError:
        return
    for each in found:
        name, wanted = each["metadata"]["name"], (each.get("spec") or {}).get("replicas", 1)
        ready = (each.get("status") or {}).get("readyReplicas") or 0
        if ready < wanted:
            cure = f"kubectl -n {context.namespace} describe statefulset {name}"
            grade = fail if ready <= wanted // 2 else warn
            yield grade("etcd", f"{context.namespace}/{name}: {ready} of {wanted} members are ready", cure)
        else:
            yield ok("etcd", f"{context.namespace}/{name}: {ready} of {wanted} members are ready")


def _list(context: CheckContext, path: str, selector: str, tried: str) -> list[dict[str, Any]]:
    found = context.cluster.request("GET", path, tried=tried, query={"labelSelector": selector})
    return list(found.get("items") or ())
