"""The three members of etcd, read from their own metrics."""

from e2e.cluster import SYSTEM, Cluster
from e2e.programs import ProgramFailed

MEMBERS = tuple(f"elasticjob-etcd-{number}" for number in range(3))


def leader(cluster: Cluster, *queried: str) -> str:
    """Return the pod of the leading member among those queried; empty without one, or if one knows no leader."""
    leaders = []
    for member in queried or MEMBERS:
        path = f"/api/v1/namespaces/{SYSTEM}/pods/{member}:2381/proxy/metrics"
        try:
            metrics = cluster.kubectl("get", "--raw", path).splitlines()
        except ProgramFailed:
            return ""
        if "etcd_server_has_leader 1" not in metrics or "etcd_server_is_learner 1" in metrics:
            return ""
        leaders += [member] * ("etcd_server_is_leader 1" in metrics)
    return leaders[0] if len(leaders) == 1 else ""
