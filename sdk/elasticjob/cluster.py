"""The API server of a cluster, for its users: requests and streams of lines over plain dictionaries.

Only this module imports kubernetes, and only when it connects to a cluster. Bodies never pass through typed models,
which would drop fields that they do not know. Errors of the libraries below are turned into errors of the SDK here.
Several threads may use one object at once: it has a pool of connections.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from elasticjob.api_errors import FIRST_ERROR, error_from_response
from elasticjob.errors import MissingExtra, NoCluster, Unreachable
from elasticjob.streams import Lines
from elasticjob_api import constants
from elasticjob_api.nesting import read_json

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

ALL_NAMESPACES = ""
"""Value of a namespace argument that means all namespaces."""
_ANSWER_S = 30.0
"""Seconds for a request and its response. A stream has the limit that its caller sets."""
_CONNECT_S = 10.0
_KUBECONFIG = "~/.kube/config"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MERGE = "application/merge-patch+json"
_JSON = "application/json"


class Cluster:
    """An API server and a default namespace. `Cluster.connect()` returns one."""

    def __init__(self, api: "ApiClient", namespace: str) -> None:
        self._api = api
        self.namespace = namespace

    @classmethod
    def connect(
        cls, *, kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None, namespace: str = ""
    ) -> "Cluster":
        """Find a cluster as kubectl does: this file, else $KUBECONFIG, in a pod its service account, ~/.kube/config.

        No request is sent yet.

        Args:
            kubeconfig: a file, or several, separated by colons.
            context: a context of the file, instead of its current one.
            namespace: a namespace, instead of that of the context.

        Raises:
            MissingExtra: the extra `[cli]` is not installed.
            NoCluster: there is no kubeconfig, it cannot be used, or it has no such context.
        """
        client, config = _library()
        settings = client.Configuration()
        settings.retries = False  # `wait` retries by itself, and any other call must fail at once
        named = os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
        try:
            if not named and not context and "KUBERNETES_SERVICE_HOST" in os.environ:
                config.load_incluster_config(client_configuration=settings)
                found = _pod_namespace()
            else:
                found = _load_kubeconfig(config, named, context, settings)
        except (config.ConfigException, OSError, ValueError, TypeError) as error:
            raise NoCluster(_no_cluster(named, context, error)) from error
        settings.retries = False
        return cls(client.ApiClient(settings), namespace or found or "default")

    @property
    def server(self) -> str:
        """The address of the API server."""
        return str(self._api.configuration.host)

    def close(self) -> None:
        """Close the connections."""
        self._api.rest_client.pool_manager.clear()

    def request(
        self, method: str, path: str, *, tried: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """Send a request and return its response as JSON.

        Args:
            method: the HTTP method; a PATCH is a merge patch.
            path: the path on the server, for example `/api/v1/nodes`.
            tried: the purpose, for the error: "create the job digits".
            query: query parameters.
            body: the body, which is sent as JSON.

        Raises:
            ClusterError: or one of its subclasses.
        """
        with self._open(method, path, tried=tried, query=query, body=body, timeout_s=_ANSWER_S) as response:
            try:
                found: dict[str, Any] = read_json(response.data)
            except ValueError as error:
                raise Unreachable(f"cannot {tried}: {self.server} did not answer in JSON; is it Kubernetes?") from error
            return found

    @contextmanager
    def lines(
        self, path: str, *, tried: str, query: Mapping[str, Any], silence_s: float | None = None
    ) -> Iterator[Lines]:
        """Yield the lines of an endless response as they arrive, without their line ends.

        Raise Unreachable when the connection breaks, or after `silence_s` without a byte (None: no limit).
        """
        with self._open("GET", path, tried=tried, query=query, body=None, timeout_s=silence_s) as response:
            yield Lines(response)

    @contextmanager
    def _open(
        self, method: str, path: str, *, tried: str, query: Mapping[str, Any] | None, body: Any, timeout_s: float | None
    ) -> Iterator[Any]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with kubernetes, see `_library`

        url = f"{path}?{urlencode(query)}" if query else path
        headers = {"Accept": f"{_JSON}, */*", "Content-Type": _MERGE if method == "PATCH" else _JSON}
        response = None
        try:
            request = self._api.param_serialize(method, url, header_params=headers, auth_settings=["BearerToken"])
            response = self._api.call_api(
                *request[:2],
                header_params=request[2],
                body=body,
                _request_timeout=(_CONNECT_S, timeout_s),
            ).response
            if response.status >= FIRST_ERROR:
                raise error_from_response(response.status, tried, response.data)
            yield response
        except (HTTPError, OSError, _api_exception()) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise Unreachable(
                f"cannot {tried}: {self.server} did not answer: {reason}; check that it runs and is reachable"
            ) from error
        finally:
            if response is not None:
                response.close()  # after a complete read, the connection is in the pool already


def jobs_path(namespace: str, name: str = "") -> str:
    """Return the path of the jobs of a namespace or of all namespaces, or of one job."""
    return _within(f"/apis/{constants.API_VERSION}", namespace, constants.PLURAL, name)


def pods_path(namespace: str, name: str = "") -> str:
    """Return the path of pods."""
    return _within("/api/v1", namespace, "pods", name)


def _within(root: str, namespace: str, plural: str, name: str) -> str:
    scope = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"{root}{scope}/{plural}" + (f"/{quote(name)}" if name else "")


def _library() -> tuple[Any, Any]:
    try:
        from kubernetes import client, config  # noqa: PLC0415  # takes 0.2 s, and is in an extra
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "the library kubernetes, which connects to clusters, is not installed: pip install 'elasticjob[cli]'"
        ) from error
    return client, config


def _api_exception() -> type[Exception]:
    from kubernetes.client.exceptions import ApiException  # noqa: PLC0415  # see `_library`

    found: type[Exception] = ApiException
    return found


def _pod_namespace() -> str:
    try:
        return _SERVICE_ACCOUNT.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _load_kubeconfig(config: Any, named: str | None, context: str | None, settings: Any) -> str:
    """Load a kubeconfig into `settings`, and return the namespace of its context."""
    # `load_kube_config` does the same without returning the namespace.
    files = config.kube_config
    merged = files.KubeConfigMerger(named or files.KUBE_CONFIG_DEFAULT_LOCATION)
    if merged.config is None:
        raise config.ConfigException("the file does not exist or is empty")
    if context and merged.config["contexts"].get_with_name(context, safe=True) is None:
        where = named or _KUBECONFIG
        raise NoCluster(f"no context {context} in {where}; `kubectl config get-contexts` lists the contexts")
    loader = files.KubeConfigLoader(
        config_dict=merged.config,
        active_context=context,
        config_base_path=None,
        config_persister=merged.save_changes,
    )
    loader.load_and_set(settings)
    return str((loader.current_context.get("context") or {}).get("namespace") or "")


def _no_cluster(named: str | None, context: str | None, error: Exception) -> str:
    where = named or _KUBECONFIG
    with_context = f" with context {context}" if context else ""
    reason = " ".join(str(error).split())
    return f"cannot use {where}{with_context}: {reason}; set $KUBECONFIG to a kubeconfig with which kubectl works"
