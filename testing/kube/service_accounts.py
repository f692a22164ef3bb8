"""Service accounts for an operator with fewer permissions than `deploy/rbac.yaml`, and a way to add the rest."""

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from testing.kube.stack import RBAC, SYSTEM, service_account_token
from testing.servers.apiserver import ApiServer

_, _RBAC = RBAC


def _role() -> dict[str, Any]:
    found = [document for document in yaml.safe_load_all(_RBAC.read_text()) if document["kind"] == "ClusterRole"]
    role: dict[str, Any] = found[0]
    return role


def apply(server: ApiServer, manifest: Mapping[str, Any]) -> None:
    """`kubectl apply`."""
    done = server.kubectl("apply", "-f", "-", stdin=manifest)
    assert done.returncode == 0, done.stderr


def account_without(server: ApiServer, name: str, resource: str, verb: str) -> str:
    """Return a token of a new account with the operator's role, except for one verb on one resource."""
    role = copy.deepcopy(_role())
    role["metadata"] = {"name": name}
    for rule in role["rules"]:
        if rule["resources"] == [resource]:
            rule["verbs"] = [known for known in rule["verbs"] if known != verb]
    assert role["rules"] != _role()["rules"], f"the role has no {verb} on {resource}"
    role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    apply(server, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SYSTEM}})
    apply(server, role)
    apply(server, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", **binding})
    return service_account_token(server, name)


def grant(server: ApiServer, name: str) -> None:
    """Give the account the whole role."""
    apply(server, {**_role(), "metadata": {"name": name}})


def account_in(server: ApiServer, name: str, namespace: str) -> str:
    """Return a token of a new account that has the operator's role in one namespace, and none in the cluster."""
    rules = [rule for rule in _role()["rules"] if "resourceNames" not in rule]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    meta, version = {"name": name, "namespace": namespace}, "rbac.authorization.k8s.io/v1"
    apply(server, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SYSTEM}})
    apply(server, {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules})
    binding = {"metadata": meta, "roleRef": reference, "subjects": [subject]}
    apply(server, {"apiVersion": version, "kind": "RoleBinding", **binding})
    return service_account_token(server, name)
