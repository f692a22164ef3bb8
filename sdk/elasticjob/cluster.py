"""One API server, as a user of it sees it: requests and streams of lines over plain dictionaries.

The only file here that imports kubernetes, and it does so when a cluster is connected to. Bodies never pass through
typed models, which would drop fields that they do not know. Every error of the libraries below ends here. An object
may be used by several threads at once: the connections are a pool.
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
"""Where a namespace is asked for: all of them."""
_ANSWER_S = 30.0
"""For a request and its answer; a stream is silent for as long as its caller allows."""
_CONNECT_S = 10.0
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MERGE = "application/merge-patch+json"
_JSON = "application/json"


class Cluster:
    """An API server, and the namespace that is meant when none is named. `Cluster.connect()` makes one."""

    def __init__(self, api: "ApiClient", namespace: str) -> None:
        self._api = api
        self.namespace = namespace

    @classmethod
    def connect(
        cls, *, kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None, namespace: str = ""
    ) -> "Cluster":
        """As kubectl finds it: this file, else $KUBECONFIG, else in a pod its service account, else ~/.kube/config.

        Nothing is asked of the server yet.

        Args:
            kubeconfig: a file, or several with colons between them.
            context: one of the file's contexts instead of its current one.
            namespace: instead of the context's.

        Raises:
            MissingExtra: without the extra `[cli]`.
            NoCluster: there is no kubeconfig, it cannot be used, or it has no such context.
        """
        client, config = _library()
        settings = client.Configuration()
        settings.retries = False  # whoever waits asks again; whoever asks once shall know at once
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
        """Its address."""
        return str(self._api.configuration.host)

    def close(self) -> None:
        """End the connections."""
        self._api.rest_client.pool_manager.clear()

    def request(
        self, method: str, path: str, *, tried: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """One request and its answer as JSON.

        Args:
            method: a PATCH is a merge patch.
            path: below the server, as `/api/v1/nodes`.
            tried: what this does, for the error: "create the job digits".
            query: parameters.
            body: is sent as JSON.

        Raises:
            ClusterError: one of its kinds.
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
        """The lines of an endless answer, without their ends, as they come.

        Raises Unreachable when the connection breaks, or after `silence_s` without a byte (None: never).
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
            said = " ".join(str(error).split()) or type(error).__name__
            raise Unreachable(
                f"cannot {tried}: {self.server} did not answer: {said}; is it up, and reachable?"
            ) from error
        finally:
            if response is not None:
                response.close()  # of one that was read to its end the connection is in the pool already


def jobs_path(namespace: str, name: str = "") -> str:
    """Where jobs are: those of a namespace, of all of them, or one."""
    return _within(f"/apis/{constants.API_VERSION}", namespace, constants.PLURAL, name)


def pods_path(namespace: str, name: str = "") -> str:
    """Where pods are."""
    return _within("/api/v1", namespace, "pods", name)


def _within(root: str, namespace: str, plural: str, name: str) -> str:
    place = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"{root}{place}/{plural}" + (f"/{quote(name)}" if name else "")


def _library() -> tuple[Any, Any]:
    try:
        from kubernetes import client, config  # noqa: PLC0415  # 0.2 s, and in an extra: only for whoever has a cluster
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "kubernetes is not installed, so no cluster can be asked: pip install 'elasticjob[cli]'"
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
    """Take what it says into `settings`; the context's namespace. As `load_kube_config`, which does not tell that."""
    files = config.kube_config
    merged = files.KubeConfigMerger(named or files.KUBE_CONFIG_DEFAULT_LOCATION)
    if merged.config is None:
        raise config.ConfigException("there is no such file, or nothing in it")
    loader = files.KubeConfigLoader(
        config_dict=merged.config,
        active_context=context,
        config_base_path=None,
        config_persister=merged.save_changes,
    )
    loader.load_and_set(settings)
    return str((loader.current_context.get("context") or {}).get("namespace") or "")


def _no_cluster(named: str | None, context: str | None, error: Exception) -> str:
    where = named or "~/.kube/config"
    asked = f" with context {context}" if context else ""
    said = " ".join(str(error).split())
    if context and f"with name {context} in" in said:
        return f"no context {context} in {where}; `kubectl config get-contexts` lists those that there are"
    return (
        f"no way to a cluster by {where}{asked}: {said}; name a kubeconfig by $KUBECONFIG, and see that kubectl works"
    )
