"""Jobs as an API server has them, for views: small, large, and with problems. Times are around `NOW_S`."""

from datetime import UTC, datetime
from typing import Any

NOW_S = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


def at(offset_s: float) -> str:
    """Return a time before or after now, as in a status."""
    text = datetime.fromtimestamp(NOW_S + offset_s, tz=UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def a_node(slot: int, ranks: str = "R", **fields: Any) -> dict[str, Any]:
    """Return an entry of `status.nodes`."""
    name = f"digits-{slot}"
    return {
        "name": name,
        "podName": f"{name}-abcde",
        "nodeName": f"n{slot}",
        "ranks": ranks,
        "state": "Running",
    } | fields


def a_round(number: int, begin_s: float, end_s: float | None, slots: str, **fields: Any) -> dict[str, Any]:
    """Return an entry of `status.rounds`."""
    made = {"round": number, "startTime": at(begin_s), "slots": slots, "nodes": 2, "workers": 4, **fields}
    return made if end_s is None else {**made, "endTime": at(end_s)}


FAILURE = {
    "time": at(-40),
    "round": 1,
    "podName": "digits-1-abcde",
    "nodeName": "n1",
    "rank": 3,
    "localRank": 1,
    "exitCode": 139,
    "signal": "SIGSEGV",
    "message": "Fatal Python error: Segmentation fault",
}


def a_job(**status: Any) -> dict[str, Any]:
    """Return a job that runs its second round with two nodes of two workers."""
    fields = {
        "phase": "Running",
        "readyReplicas": 2,
        "desiredReplicas": 2,
        "rendezvousRound": 2,
        "worldSize": 4,
        "restarts": 1,
        "nodeLosses": 0,
        "startTime": at(-100),
        "lastRendezvousTime": at(-39),
        "workerStates": {"running": 4},
        "nodes": [a_node(0, "RR", rank=0), a_node(1, "RR", rank=1)],
        "masterPod": "digits-0-abcde",
        **status,
    }
    meta = {"name": "digits", "namespace": "team", "creationTimestamp": at(-100), "uid": "u"}
    return {"metadata": meta, "spec": {"replicas": 2, "maxRestarts": 3}, "status": fields}


def two_rounds() -> list[dict[str, Any]]:
    """Return two rounds with a failure between them, and a third node in the second."""
    return [
        a_round(1, -90, -40, "0-1", cause="First"),
        a_round(2, -39.9, None, "0-2", cause="WorkerFailed", message="rank 3 was killed by SIGSEGV", nodes=3),
    ]


def a_crowd(nodes: int, nproc: int = 1, missing: int = 0) -> dict[str, Any]:
    """Return a large job whose last nodes are not scheduled."""
    here = [a_node(i, "R" * nproc, rank=i) for i in range(nodes - missing)]
    away = [a_node(i, "P" * nproc, state="Pending", reason="Unschedulable") for i in range(nodes - missing, nodes)]
    states = {"running": (nodes - missing) * nproc, "pending": missing * nproc}
    return a_job(nodes=[*here, *away], workerStates=states, desiredReplicas=nodes, readyReplicas=nodes - missing)
