"""Builders for the state of a run."""

from typing import Any

from elasticjob_api import constants
from elasticjob_api.records import NodeReport, NodeSamples, Progress, WorkerReport, WorkerState
from elasticjob_api.rendezvous_state import Member
from elasticjob_cli.local.run_view import RunView


def a_pod(name: str = "j-0-abcde", *, slot: int = 0, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """Return a pod of a job."""
    labels = {constants.LABEL_SLOT: str(slot)}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, **metadata},
        "spec": {"nodeName": f"local-{slot}"},
        "status": {"phase": phase},
    }


def a_report(pod: str = "j-0-abcde", *, round_: int = 1, ranks: tuple[int, ...] = (0, 1), **fields: Any) -> NodeReport:
    """Return the report of an agent; every worker has the given state and code."""
    state, code = fields.pop("state", WorkerState.HEALTHY), fields.pop("code", None)
    workers = tuple(WorkerReport(rank=rank, state=state, pid=100 + rank, exit_code=code) for rank in ranks)
    return NodeReport(pod=pod, pod_uid=f"uid-{pod}", round=round_, group_rank=0, workers=workers, **fields)


def a_view(
    *reports: NodeReport,
    pods: tuple[dict[str, Any], ...] = (),
    progress: tuple[Progress | None, ...] = (),
    **status: Any,
) -> RunView:
    """Return a view of a job with this status."""
    view = RunView(job={"metadata": {"name": "j", "namespace": "default"}, "status": status})
    view.pods = {pod["metadata"]["name"]: pod for pod in pods}
    view.reports = {report.pod: report for report in reports}
    view.samples = {Member(i, "0" * 8): NodeSamples(round=1, progress=each) for i, each in enumerate(progress)}
    return view


def a_node(slot: int, *, rank: int | None, ranks: str) -> dict[str, Any]:
    """Return an entry of `status.nodes`."""
    node = {"name": f"j-{slot}", "podName": f"j-{slot}-abcde", "nodeName": f"local-{slot}", "ranks": ranks}
    return node if rank is None else {**node, "rank": rank}


def progress(step: int, total: int) -> Progress:
    """Return a progress report of the training."""
    return Progress(step=step, total=total)
