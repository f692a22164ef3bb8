"""The leading replica of the operator, read from its Lease."""

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
    """The time at which it became the leader."""


def leader(cluster: Cluster) -> Leader:
    """Return the leader; wait until there is one."""
    found = eventually(lambda: _holder(cluster), within_s=_WITHIN_S, what="an operator leads", pause_s=0.5)
    assert found is not None
    pod, acquired_at = found
    node = cluster.kubectl("get", "pod", "-n", SYSTEM, pod, "-o", "jsonpath={.spec.nodeName}")
    return Leader(pod, node, acquired_at)


def next_leader(cluster: Cluster, before: Leader) -> Leader:
    """Wait until another replica leads, and return it."""
    found = eventually(
        lambda: other if (other := leader(cluster)).pod != before.pod else None,
        within_s=_WITHIN_S,
        what=f"another operator than {before.pod} leads",
        pause_s=0.2,
    )
    assert found is not None
    return found


def kill(killed: Leader) -> float:
    """Send SIGKILL to all processes of the pod, so that it does not release the Lease; return the time before."""
    script = 'date +%s.%N; kill -9 $(grep -lzx "HOSTNAME=$0" /proc/[0-9]*/environ | cut -d/ -f3)'
    output = run("docker", "exec", killed.node, "sh", "-c", script, killed.pod)
    return float(output.split()[0])


def _holder(cluster: Cluster) -> tuple[str, float] | None:
    """Return the pod that holds the Lease, and the time of its acquisition; None while no pod holds it."""
    spec = json.loads(cluster.kubectl("get", "lease", "-n", SYSTEM, OPERATOR_LEASE, "-o", "json"))["spec"]
    if not spec.get("holderIdentity"):
        return None
    return spec["holderIdentity"].partition("_")[0], datetime.fromisoformat(spec["acquireTime"]).timestamp()
