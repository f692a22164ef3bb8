"""Follow the watches of a run: update its view, and print a line for each change that a user wants to see.

A change of the job is an event of the operator, word for word. A cause that a worker has written already is left out,
and the summary has the end of the job (`repeats`). A change of a pod comes from its status.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from elasticjob_api import constants
from elasticjob_api.errors import RecordError
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.keys import Keys
from elasticjob_api.records import NodeReport, NodeSamples, decode
from elasticjob_api.rendezvous_state import Member
from elasticjob_cli.local.console import TextStyle
from elasticjob_cli.local.repeats import RecentOutput, event_line
from elasticjob_cli.local.run_view import RunView
from elasticjob_cli.local.summary import describe_code
from elasticjob_cli.views.start_text import start_lines
from elasticjob_etcd.interface import Etcd, KeyValue
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, Resource
from elasticjob_operator.policy.status.worker_start import start_status

PrintLine = Callable[[str, TextStyle], None]

_GOOD = {constants.EventReason.SUCCEEDED}


async def follow_job(cluster: InMemoryCluster, view: RunView) -> None:
    """Keep the job and its status in the view."""
    async for event in cluster.watch(Resource.JOB):
        if event.change in {Change.SYNCED, Change.DELETED}:
            continue
        view.job = event.object
        if view.running_since_s is None and _all_run(view.status):
            view.running_since_s = asyncio.get_running_loop().time()
        view.changed()


def _all_run(status: Any) -> bool:
    size = status.get("worldSize") or 0
    return size > 0 and (status.get("workerStates") or {}).get("running", 0) >= size


async def follow_pods(cluster: InMemoryCluster, view: RunView, report: PrintLine) -> None:
    """Keep the pods in the view, and report their changes."""
    async for event in cluster.watch(Resource.POD):
        if event.change is Change.SYNCED:
            continue
        name = objects.name_of(event.object)
        before = view.pods.get(name)
        view.pods[name] = event.object
        view.deleted.discard(name)
        for text, tone in report_pod(before, event.object):
            report(text, tone)
        if event.change is Change.DELETED:
            view.deleted.add(name)
            report(f"pod {name} was deleted", TextStyle.PLAIN)
        view.changed()


def report_pod(before: Object | None, after: Object) -> Iterator[tuple[str, TextStyle]]:
    """Yield the lines for a change of a pod."""
    name, node = objects.name_of(after), (after.get("spec") or {}).get("nodeName", "")
    was, phase = objects.pod_phase(before or {}), objects.pod_phase(after)
    if phase != was and phase == "Running":
        yield f"pod {name} is running on {node}", TextStyle.PLAIN
    if phase != was and phase == "Succeeded":
        yield f"pod {name} succeeded", TextStyle.PLAIN
    if phase != was and phase == "Failed" and not objects.is_terminating(after) and not _only_a_peer_failed(after):
        yield f"pod {name} failed: {why_failed(after)}", TextStyle.BAD
    if objects.is_terminating(after) and not objects.is_terminating(before or {}) and phase == "Running":
        yield f"pod {name} is being stopped", TextStyle.PLAIN


def _only_a_peer_failed(pod: Object) -> bool:
    """Return whether only its agent ended badly, because a worker on another node has failed the job."""
    return [end["exitCode"] for _, end in _bad_ends(pod)] == [ExitCode.PEER_FAILED]


def why_failed(pod: Object) -> str:
    """Return the reason in words: that of the kubelet, else the end of each container that failed."""
    status = pod.get("status") or {}
    if status.get("reason"):
        return f"{status['reason']}: {status.get('message', '')}"
    return "; ".join(f"{name} {_describe_end(end)}" for name, end in _bad_ends(pod)) or "its containers exited"


def _bad_ends(pod: Object) -> list[tuple[str, dict[str, Any]]]:
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return [(c["name"], end) for c in statuses if (end := c["state"].get("terminated")) and end["exitCode"]]


def _describe_end(end: dict[str, Any]) -> str:
    sig = end.get("signal")
    end_text = f"was killed by {describe_code(-sig)}" if sig else f"exited with {end['exitCode']}"
    # A container that ran has written its reason itself, in a line above. One that never ran has no other line.
    return f"{end_text}: {end['message']}" if end.get("reason") == "StartError" else end_text


async def follow_events(cluster: InMemoryCluster, view: RunView, report: PrintLine, recent: RecentOutput) -> None:
    """Write the operator's events, without causes that the pods have written already."""
    async for event in cluster.watch(Resource.EVENT):
        if event.change in {Change.LISTED, Change.ADDED, Change.MODIFIED}:
            reason, message = str(event.object.get("reason", "")), str(event.object.get("message", ""))
            line = event_line(reason, message, view.last_failure, recent)
            if line is not None:
                report(line, _tone(event.object))


def _tone(event: Object) -> TextStyle:
    if event.get("type") == "Warning":
        return TextStyle.BAD
    return TextStyle.GOOD if event.get("reason") in _GOOD else TextStyle.PLAIN


async def follow_starts(view: RunView, report: PrintLine) -> None:
    """Write once a round how its workers were started, if warm start is on."""
    written = 0
    while True:
        await view.next_change()
        round_, lines = describe_starts(view)
        if round_ > written and lines:
            written = round_
            for line in lines:
                report(f"round {round_}: {line}", TextStyle.PLAIN)


def describe_starts(view: RunView) -> tuple[int, list[str]]:
    """Return the round of the status, and how its workers were started; no lines before all nodes have reported it."""
    round_: int = view.status.get("rendezvousRound") or 0
    reports = [report for report in view.reports.values() if report.round == round_]
    started = [report for report in reports if report.start]
    if not started or sum(len(report.workers) for report in reports) < (view.status.get("worldSize") or 0):
        return round_, []
    nodes = [{"podName": report.pod, "start": _start(report)} for report in started]
    return round_, list(start_lines(nodes))


def _start(report: NodeReport) -> dict[str, str]:
    status = start_status(report)
    return {"kind": status.kind, "reason": status.reason} if status else {}


async def follow_reports(etcd: Etcd, keys: Keys, view: RunView) -> None:
    """Keep the agents' reports and samples in the view; they remain there after their agent has ended."""
    listing = await etcd.range(keys.reports)
    for kv in listing.kvs:
        _apply_report(keys, kv, view)
    async for batch in etcd.watch(keys.reports, start_revision=listing.revision + 1):
        for event in batch.events:
            if not event.deleted:
                _apply_report(keys, event.kv, view)
        view.changed()


def _apply_report(keys: Keys, kv: KeyValue, view: RunView) -> None:
    at = keys.parse(kv.key)
    try:
        if at is not None and at.kind == "samples":
            view.samples[Member(at.slot or 0, at.incarnation or "")] = decode(NodeSamples, kv.value)
        elif at is not None:
            report = decode(NodeReport, kv.value)
            view.reports[report.pod] = report
    except RecordError:
        return  # the operator, which reads the same record, logs it
