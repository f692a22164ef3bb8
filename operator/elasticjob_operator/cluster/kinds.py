"""The location of each resource in the API: group, version, kind, path, label selector."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from elasticjob_api import constants
from elasticjob_operator.model.cluster_interface import Resource


@dataclass(frozen=True, slots=True)
class Kind:
    """The API path, version and kind of a resource."""

    root: str
    api_version: str
    kind: str


KINDS = {
    Resource.JOB: Kind(f"/apis/{constants.API_VERSION}", constants.API_VERSION, constants.KIND),
    Resource.POD: Kind("/api/v1", "v1", "Pod"),
    Resource.SERVICE: Kind("/api/v1", "v1", "Service"),
    Resource.EVENT: Kind("/api/v1", "v1", "Event"),
    Resource.NODE: Kind("/api/v1", "v1", "Node"),
    Resource.NAMESPACE: Kind("/api/v1", "v1", "Namespace"),
    Resource.PERSISTENT_VOLUME_CLAIM: Kind("/api/v1", "v1", "PersistentVolumeClaim"),
    Resource.PERSISTENT_VOLUME: Kind("/api/v1", "v1", "PersistentVolume"),
    Resource.LEASE: Kind("/apis/coordination.k8s.io/v1", "coordination.k8s.io/v1", "Lease"),
    Resource.CONFIG_MAP: Kind("/api/v1", "v1", "ConfigMap"),
    Resource.SECRET: Kind("/api/v1", "v1", "Secret"),
    Resource.DISRUPTION_BUDGET: Kind("/apis/policy/v1", "policy/v1", "PodDisruptionBudget"),
}


def selected(resource: Resource, query: Mapping[str, str]) -> Mapping[str, str]:
    """Return the query of a list or a watch, for pods limited to those of jobs."""
    return {**query, "labelSelector": constants.LABEL_JOB_UID} if resource is Resource.POD else query


def path_of(resource: Resource, namespace: str, name: str = "") -> str:
    """Return the path of a collection (namespace "" for all), or of one object in it."""
    within = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"{KINDS[resource].root}{within}/{resource.value}" + (f"/{quote(name)}" if name else "")
