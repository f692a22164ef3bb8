"""The objects of an API server that tests share: those without a namespace, and those in the operator's own.

A test that leaves one behind changes the result of later tests, and the scheduling of pytest-xdist decides which tests
are later. The fixture that uses this restores objects that a test has created, changed or deleted.
"""

import http.client
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from testing.kube.stack import SYSTEM
from testing.servers.apiserver import ApiServer

_TOKEN = "admin-token"
_LIMIT_S = 60.0
_OWN = (
    *("/api/v1/{}/configmaps", "/api/v1/{}/secrets", "/api/v1/{}/services", "/api/v1/{}/serviceaccounts"),
    *("/api/v1/{}/pods", "/api/v1/{}/persistentvolumeclaims", "/apis/apps/v1/{}/deployments"),
    *("/apis/apps/v1/{}/statefulsets", "/apis/coordination.k8s.io/v1/{}/leases"),
    *("/apis/policy/v1/{}/poddisruptionbudgets", "/apis/networking.k8s.io/v1/{}/networkpolicies"),
    *("/apis/rbac.authorization.k8s.io/v1/{}/roles", "/apis/rbac.authorization.k8s.io/v1/{}/rolebindings"),
)
_CLUSTER = (
    *("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    *("/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/persistentvolumes", "/api/v1/nodes"),
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
)
_LISTS = (*(path.format(f"namespaces/{SYSTEM}") for path in _OWN), *_CLUSTER)
_SERVERS_OWN = ("system:", "kube-root-ca.crt", "system-")

Object = dict[str, Any]


class SharedObjects:
    """The shared objects of one server; a context manager that closes its connection."""

    def __init__(self, server: ApiServer) -> None:
        address = urlsplit(server.url)
        trusted = ssl.create_default_context(cafile=server.certificate)
        self._connection = http.client.HTTPSConnection(
            str(address.hostname), address.port, timeout=_LIMIT_S, context=trusted
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def read(self) -> dict[str, Object]:
        """Return path → object, without those that the server creates for itself."""
        return {
            f"{path}/{found['metadata']['name']}": found
            for path in _LISTS
            for found in self._ask("GET", path)["items"]
            if not found["metadata"]["name"].startswith(_SERVERS_OWN)
        }

    def restore(self, before: dict[str, Object]) -> list[str]:
        """Restore the objects to `before`; return the paths of those that differed."""
        after = self.read()
        wrong = [path for path in {**after, **before} if _content(after.get(path)) != _content(before.get(path))]
        for path in wrong:
            if path in after:
                self._ask("DELETE", path)
            if path in before:
                self._ask("POST", path.rpartition("/")[0], _fresh(before[path]))
        return wrong

    def _ask(self, verb: str, path: str, body: Object | None = None) -> Object:
        headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": "application/json"}
        self._connection.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        found: Object = json.loads(answer.read())
        is_deleted = verb == "DELETE" and answer.status == http.client.NOT_FOUND
        assert is_deleted or answer.status < http.client.BAD_REQUEST, f"{verb} {path}: {found}"
        return found


def restored(server: ApiServer) -> Iterator[None]:
    """Undo a test's changes to shared objects; for use in a fixture."""
    shared = SharedObjects(server)
    before = shared.read()
    shared.close()
    yield
    # Some tests stop or restart the server: use a new connection.
    shared = SharedObjects(server)
    shared.restore(before)
    shared.close()


def _content(found: Object | None) -> Object | None:
    return found and {**_fresh(found), "uid": found["metadata"]["uid"]}


def _fresh(found: Object) -> Object:
    """Return an object as it would be created."""
    metadata = {key: value for key, value in found["metadata"].items() if key in {"name", "namespace", "labels"}}
    return {**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata}
