"""Which replica of the operator leads, by its Lease."""

import json
from dataclasses import dataclass
from datetime import datetime

from e2e.cluster import OPERATOR_LEASE, SYSTEM, Cluster
from e2e.programs import run
from testing.waiting import eventually

_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Leader:
    """The replica that holds the Lease."""

    pod: str
    node: str
    acquired_at: float
    """The moment when it began to lead."""


def leader(cluster: Cluster) -> Leader:
    """The one that leads; waits until there is one."""
    found = eventually(lambda: _holder(cluster), within_s=_WITHIN_S, what="an operator leads", pause_s=0.5)
    assert found is not None
    pod, acquired_at = found
    node = cluster.kubectl("get", "pod", "-n", SYSTEM, pod, "-o", "jsonpath={.spec.nodeName}")
    return Leader(pod, node, acquired_at)


def next_leader(cluster: Cluster, before: Leader) -> Leader:
    """Wait until another replica leads."""
    found = eventually(
        lambda: other if (other := leader(cluster)).pod != before.pod else None,
        within_s=_WITHIN_S,
        what=f"another operator than {before.pod} leads",
        pause_s=0.2,
    )
    assert found is not None
    return found


def kill(killed: Leader) -> float:
    """SIGKILL to all processes of the pod, so that it gives up nothing; the moment before."""
    script = 'date +%s.%N; kill -9 $(grep -lzx "HOSTNAME=$0" /proc/[0-9]*/environ | cut -d/ -f3)'
    said = run("docker", "exec", killed.node, "sh", "-c", script, killed.pod)
    return float(said.split()[0])


def _holder(cluster: Cluster) -> tuple[str, float] | None:
    """The pod that holds the Lease, and the moment when it took it; None while it has been given up."""
    spec = json.loads(cluster.kubectl("get", "lease", "-n", SYSTEM, OPERATOR_LEASE, "-o", "json"))["spec"]
    if not spec.get("holderIdentity"):
        return None
    return spec["holderIdentity"].partition("_")[0], datetime.fromisoformat(spec["acquireTime"]).timestamp()
