"""The identity of an installation, in a ConfigMap of the release: a random id, and the first element of every key.

Both are written once and then stay. The cluster id would otherwise follow `watchNamespaces`, and each change of it
would lose every job's keys. Of two processes that start at once, the first to write decides: each write names the
version that it has read.
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
    """Who this operator is."""

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
    """The identity in the ConfigMap; what it lacks is written into it. ClusterError when that cannot be done."""
    while True:
        found = await secrets.get(Resource.CONFIG_MAP, namespace, name)
        data = dict((found or {}).get("data") or {})
        if not (data.get(_ID) and data.get(_CLUSTER_ID)):
            whole = {**data, _ID: data.get(_ID) or new_id(), _CLUSTER_ID: data.get(_CLUSTER_ID) or await cluster_id()}
            if not await _write(secrets, found or _empty_config_map(namespace, name), whole, exists=found is not None):
                continue
            log.info("this is installation %s, as ConfigMap %s/%s keeps it", whole[_ID], namespace, name)
            data = whole
        return Installation(id=data[_ID], cluster_id=data[_CLUSTER_ID])


def _empty_config_map(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}


async def _write(secrets: SecretStore, body: Object, data: dict[str, str], *, exists: bool) -> bool:
    """Whether this write was the first."""
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
        place = f"{objects.namespace_of(body)}/{objects.name_of(body)}"
        cure = "the chart and deploy/ make it; apply them again"
        raise ClusterError(f"ConfigMap {place} is missing, and may not be created here: {cure} ({error})") from error
    return True
