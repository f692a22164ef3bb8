"""The identity of an installation, in a ConfigMap of the release: a random id, and the first element of every key.

Both are written once and never change. The cluster id would otherwise depend on `watchNamespaces`, and each change of
that would lose every job's keys. If two processes start at the same time, the first write wins: each write names the
version that its process has read.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from elasticjob_operator.errors import AlreadyExists, ClusterError, Conflict, Forbidden
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource, SecretStore

_ID, _CLUSTER_ID = "installation", "clusterId"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Installation:
    """The identity of an installation."""

    id: str
    """Written into `status.installation` of each of its jobs."""
    cluster_id: str
    """First element of every key in etcd."""


async def read_installation(
    secrets: SecretStore,
    namespace: str,
    name: str,
    *,
    new_id: Callable[[], str],
    cluster_id: Callable[[], Awaitable[str]],
) -> Installation:
    """Return the identity in the ConfigMap, after writing an id that it lacks.

    Raises:
        ClusterError: the ConfigMap cannot be read or written.
    """
    while True:
        found = await secrets.get(Resource.CONFIG_MAP, namespace, name)
        data = dict((found or {}).get("data") or {})
        if not (data.get(_ID) and data.get(_CLUSTER_ID)):
            whole = {**data, _ID: data.get(_ID) or new_id(), _CLUSTER_ID: data.get(_CLUSTER_ID) or await cluster_id()}
            if not await _write(secrets, found or _empty_config_map(namespace, name), whole, exists=found is not None):
                continue
            log.info("this is installation %s; its id is in ConfigMap %s/%s", whole[_ID], namespace, name)
            data = whole
        return Installation(id=data[_ID], cluster_id=data[_CLUSTER_ID])


def _empty_config_map(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}


async def _write(secrets: SecretStore, body: Object, data: dict[str, str], *, exists: bool) -> bool:
    """Write the ConfigMap; return False if another process wrote it first."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", **body, "data": data}
    try:
        if exists:
            return await secrets.replace(Resource.CONFIG_MAP, body) is not None
        await secrets.create(Resource.CONFIG_MAP, body)
    except (AlreadyExists, Conflict):
        return False
    except Forbidden as error:
        if exists:
            raise
        path = f"{objects.namespace_of(body)}/{objects.name_of(body)}"
        cure = "apply the chart or deploy/ again, which contain it"
        raise ClusterError(
            f"ConfigMap {path} is missing, and the operator may not create it: {cure} ({error})"
        ) from error
    return True
