"""A job as JSON for the page: a row of the list, or all details.

Every text here may come from the job, and is not escaped: the page shows text as text. Lengths are limited, so that no
job can make the page slow for the others.
"""

import math
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from elasticjob_api import codec
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import NodeReport, NodeSamples, Progress, WorkerFailure
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from elasticjob_api.status import JobStatus, KeepStatus, NodeStatus, ProgressStatus, RoundStatus
from elasticjob_operator.model import objects
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.status.highest_progress import samples_at_highest_step
from elasticjob_operator.policy.status.worker_start import start_status
from elasticjob_operator.policy.status.worker_states import states_of
from elasticjob_operator.ui.state import JobEntry

TEXT_LIMIT = 1024
TAIL_LIMIT = 4096
METRICS_LIMIT = 20
RANKS_LIMIT = 20_000
_NO_SAMPLES = NodeSamples(round=0)

Json = dict[str, Any]


def job_row(entry: JobEntry) -> Json:
    """Return the job's row in the list."""
    status, meta = entry.status, objects.metadata(entry.obj)
    return {
        "namespace": entry.key.namespace,
        "name": entry.key.name,
        "phase": str(status.phase),
        "reason": _truncate(status.reason),
        "message": _truncate(status.message),
        "nodes": [status.ready_replicas, status.desired_replicas],
        "workers": codec.write(status.worker_states, keep_defaults=True),
        "worldSize": status.world_size,
        "round": status.rendezvous_round,
        "restarts": status.restarts,
        "nodeLosses": status.node_losses,
        "progress": _job_progress(entry),
        "created": from_rfc3339(str(meta.get("creationTimestamp") or "")),
        "completed": from_rfc3339(status.completion_time),
    }


def job_details(entry: JobEntry) -> Json:
    """Return the content of the page of one job."""
    return {
        **job_row(entry),
        "uid": entry.key.uid,
        "ranks": list(_nodes(entry)),
        "truncated": entry.status.nodes_truncated,
        "keep": _keep(entry.status.keep, _persist_to(entry.obj)),
        "rounds": list(_rounds(entry)),
        "failure": _last_failure(entry.status),
        "failures": [_failure(key, failure) for key, failure in entry.failures.items()],
        "conditions": [
            {"type": c.type, "status": c.status, "reason": _truncate(c.reason), "message": _truncate(c.message)}
            for c in entry.status.conditions
        ],
    }


def _job_progress(entry: JobEntry) -> Json | None:
    """Return the progress that agents have reported in the last round, or else that of the status."""
    # The status is written less often than agents report, and remains when they have ended.
    samples = samples_at_highest_step(entry.view.samples.values(), entry.view.closed_round)
    newest = samples.progress if samples is not None else entry.status.progress
    return _progress_of(newest) if newest is not None else None


def _progress_of(progress: Progress | ProgressStatus) -> Json:
    metrics = {_truncate(name): _truncate(value) for name, value in list(progress.metrics.items())[:METRICS_LIMIT]}
    return {"step": progress.step, "total": progress.total, "metrics": metrics}


def _nodes(entry: JobEntry) -> Iterator[Json]:
    """Return nodes with their workers, by rank; nodes without a rank come last."""
    known = {node.pod_name: node for node in entry.status.nodes}
    members = {report.pod: member for member, report in entry.view.reports.items()}
    found = [_node(entry, known.get(pod), members.get(pod), pod) for pod in dict.fromkeys([*known, *members])]
    found.sort(key=lambda node: (node["rank"] is None, node["rank"] or 0, node["name"]))
    left = RANKS_LIMIT
    for node in found:
        left -= len(node["letters"])
        if left < 0:
            return
        yield node


def _node(entry: JobEntry, status: NodeStatus | None, member: Member | None, pod: str) -> Json:
    report = entry.view.reports[member] if member is not None else None
    samples = entry.view.samples.get(member, _NO_SAMPLES) if member is not None else _NO_SAMPLES
    reported = states_of(report) if report is not None else ""
    stored, ended = status.ranks if status is not None else "", bool(entry.status.completion_time)
    workers = report.workers if report is not None else ()
    return {
        "name": status.name if status is not None else pod,
        "pod": _truncate(pod),
        "node": _truncate(status.node_name) if status is not None else "",
        "state": status.state if status is not None else "",
        "reason": _truncate(status.reason) if status is not None else "",
        "start": _start(status, report),
        "rank": status.rank if status is not None else (report.group_rank if report is not None else None),
        "letters": (stored if ended and stored else reported or stored)[:RANKS_LIMIT],
        "first": workers[0].rank if workers else None,
        "pids": [worker.pid for worker in workers],
        "cpu": [_number(cpu) for cpu in samples.cpu_percent[: len(workers)]],
        "memory": list(samples.memory_bytes[: len(workers)]),
    }


def _keep(status: KeepStatus | None, persist_to: str) -> Json | None:
    if status is None:
        return None
    texts = {"degraded": _truncate(status.degraded), "persistError": _truncate(status.persist_error)}
    times = {"committedTime": from_rfc3339(status.committed_time), "persistedTime": from_rfc3339(status.persisted_time)}
    return {**codec.write(status), **texts, **times, "persistTo": _truncate(persist_to)}


def _persist_to(job: Json) -> str:
    """Return the directory of persisted steps as the manifest has it; empty if it has none."""
    keep = (job.get("spec") or {}).get("keep") or {}
    return str(keep.get("persistTo") or "")


def _start(status: NodeStatus | None, report: NodeReport | None) -> Json | None:
    """Return how the workers were started, by their agent's report, or else by the status."""
    found: Json | None = codec.write(start_status(report) or (status.start if status is not None else None))
    return found


def _rounds(entry: JobEntry) -> Iterator[Json]:
    """Yield the rounds of the status, and the current one if it has not been active; `end` is the state after it."""
    state, rounds = entry.view.state, sorted(entry.rounds.values(), key=lambda each: each.round)
    if state is not None and state.round in entry.opened_s.keys() - entry.rounds.keys():
        ended = entry.status.completion_time if state.phase.is_final else ""
        cause, message = state.cause.value, state.message
        rounds.append(RoundStatus(round=state.round, start_time="", end_time=ended, cause=cause, message=message))
    for each, successor in zip_longest(rounds, rounds[1:]):
        yield {
            "round": each.round,
            "cause": each.cause,
            "detail": _truncate(each.message),
            "opened": entry.opened_s.get(each.round),
            "active": from_rfc3339(each.start_time),
            "ended": from_rfc3339(each.end_time),
            "end": _phase_after(each, successor, state),
            "nodes": each.nodes,
            "workers": each.workers,
            "steps": dict(entry.steps.get(each.round, {})),
        }


def _phase_after(each: RoundStatus, successor: RoundStatus | None, state: RendezvousState | None) -> str:
    if successor is not None:
        is_resumed = successor.cause == Cause.RESUMED.value
        return str(RoundPhase.SUSPENDED.value if is_resumed else RoundPhase.FORMING.value)
    return str(state.phase.value) if state is not None and each.end_time else ""


def _last_failure(status: JobStatus) -> Json | None:
    failure = status.last_failure
    if failure is None:
        return None
    fields: Json = codec.write(failure, keep_defaults=True)
    return {name: _truncate(value) if isinstance(value, str) else value for name, value in fields.items()}


def _failure(key: FailureKey, failure: WorkerFailure) -> Json:
    return {
        "name": str(key),
        "rank": failure.rank,
        "pod": _truncate(failure.pod),
        "host": _truncate(failure.host),
        "exitCode": failure.exit_code,
        "signal": _truncate(failure.signal),
        "message": _truncate(failure.message),
        "oom": failure.oom,
        "late": failure.late,
        "tail": failure.stderr[-TAIL_LIMIT:],
    }


def _number(value: float | None) -> float | None:
    """Return the number, or None for NaN and infinity, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def _truncate(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
