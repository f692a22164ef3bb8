"""Builders of what was seen of a run."""

from typing import Any

from elasticjob_api import constants
from elasticjob_api.records import NodeReport, Progress, WorkerReport, WorkerState
from elasticjob_cli.local.run_view import RunView


def a_pod(name: str = "j-0-abcde", *, slot: int = 0, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """A pod of a job."""
    labels = {constants.LABEL_SLOT: str(slot)}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, **metadata},
        "spec": {"nodeName": f"local-{slot}"},
        "status": {"phase": phase},
    }


def a_report(pod: str = "j-0-abcde", *, round_: int = 1, ranks: tuple[int, ...] = (0, 1), **fields: Any) -> NodeReport:
    """What an agent reported; every worker has the state and the code given."""
    state, code = fields.pop("state", WorkerState.HEALTHY), fields.pop("code", None)
    workers = tuple(WorkerReport(rank=rank, state=state, pid=100 + rank, exit_code=code) for rank in ranks)
    return NodeReport(pod=pod, pod_uid=f"uid-{pod}", round=round_, group_rank=0, workers=workers, **fields)


def a_view(*reports: NodeReport, pods: tuple[dict[str, Any], ...] = (), **status: Any) -> RunView:
    """A view of a job with this status."""
    view = RunView(job={"metadata": {"name": "j", "namespace": "default"}, "status": status})
    view.pods = {pod["metadata"]["name"]: pod for pod in pods}
    view.reports = {report.pod: report for report in reports}
    return view


def a_node(slot: int, *, rank: int | None, ranks: str) -> dict[str, Any]:
    """An entry of `status.nodes`."""
    node = {"name": f"j-{slot}", "podName": f"j-{slot}-abcde", "nodeName": f"local-{slot}", "ranks": ranks}
    return node if rank is None else {**node, "rank": rank}


def told(step: int, total: int) -> Progress:
    """What the training told."""
    return Progress(step=step, total=total)
