"""The description of a job in sentences: what happened to it and why, and what to do about it.

All sentences come from the status and the events of the operator; nothing is concluded beyond them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from elasticjob_cli.views.advice import advice
from elasticjob_cli.views.job_history import HistoryEntry
from elasticjob_cli.views.keep_text import keep_sentences
from elasticjob_cli.views.last_failure import failure_text, read_last_failure
from elasticjob_cli.views.start_text import start_sentences
from elasticjob_cli.views.text import age, clock, day, duration, parse_time, pluralize, sentence

_ENDED = {"Succeeded", "Failed"}
_MAX_NODES = 12
_MAX_ENTRIES = 30
_RUNNING = {"Running", "Succeeded"}


def describe(
    job: Mapping[str, Any], history_entries: Sequence[HistoryEntry], *, now_s: float, command: str, folder: str = ""
) -> list[str]:
    """Return the lines; `command` is the name of this program, `folder` is the folder if the job is a local run."""
    meta, spec, status = job.get("metadata") or {}, job.get("spec") or {}, job.get("status") or {}
    lines = [_headline(meta, spec, status, now_s)]
    lines += [*_problems(status), *_progress(status, now_s), *_counts(spec, status), *_last_failure(status, now_s)]
    lines += [*start_sentences(status.get("nodes") or ()), *keep_sentences(spec, status, now_s=now_s)]
    if nodes := list(_nodes(status)):
        lines += ["", "Nodes that do not run:", *nodes]
    if history_entries:
        lines += ["", "What happened:", *_history_lines(history_entries)]
    if todo := advice(meta, spec, status, command=command, folder=folder):
        lines += ["", "What to do:", *(f"  {each}" for each in todo)]
    return lines


def _headline(meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any], now_s: float) -> str:
    name, phase = f"{meta.get('namespace', 'default')}/{meta.get('name')}", str(status.get("phase") or "")
    if not phase:
        return f"{name} was created, and no operator has written its status yet."
    if phase in _ENDED:
        return f"{name} has {phase.lower()}{_took(status)}."
    if phase == "Suspended":
        return f"{name} is suspended: it has no pods; its counters and history are kept."
    if status.get("reason") == "Suspending":
        return f"{name} is being suspended: {sentence(str(status.get('message')))}"
    ready, wanted = status.get("readyReplicas") or 0, status.get("desiredReplicas") or spec.get("replicas") or 1
    if phase in {"Running", "Resizing"} and ready:
        since_s = parse_time(status.get("lastRendezvousTime"))
        since = "" if since_s is None else f", for {duration(now_s - since_s)}"
        size = (
            f"{ready} of {pluralize(int(wanted), 'node')} and {pluralize(int(status.get('worldSize') or 0), 'worker')}"
        )
        return f"{name} is {phase.lower()}: round {status.get('rendezvousRound')} runs with {size}{since}."
    return f"{name} is {phase.lower()}, with {pluralize(int(ready), 'node')} of {wanted} in a round."


def _took(status: Mapping[str, Any]) -> str:
    begun_s, ended_s = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    if begun_s is None or ended_s is None:
        return ""
    return f" after {duration(ended_s - begun_s)}, at {day(ended_s)}"


def _problems(status: Mapping[str, Any]) -> Iterator[str]:
    if status.get("reason"):
        verdict = "Why" if status.get("phase") in _ENDED else "It does not run as requested"
        yield f"{verdict}: {status['reason']}: {sentence(str(status.get('message') or 'no message'))}"
    elif status.get("message"):
        yield sentence(str(status["message"]))


def _progress(status: Mapping[str, Any], now_s: float) -> Iterator[str]:
    progress = status.get("progress") or {}
    if progress.get("step") is None:
        return
    of = f" of {progress['total']}" if progress.get("total") else ""
    share = f" ({progress['percentage']} %)" if progress.get("percentage") is not None else ""
    metrics = "".join(f", {name} {value}" for name, value in (progress.get("metrics") or {}).items())
    at_s = parse_time(progress.get("lastUpdatedTime"))
    when = "" if at_s is None else f", as reported {age(now_s - at_s)} ago"
    yield f"The training has done step {progress['step']}{of}{share}{metrics}{when}."


def _counts(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[str]:
    restarts, most = int(status.get("restarts") or 0), int(spec.get("maxRestarts", 3))
    charged = int(status.get("restartsCountTowardsMax") or restarts)
    left = max(0, most - charged)
    if restarts:
        yield (
            f"The workers were restarted {_times(restarts)} because one failed; "
            f"maxRestarts is {most}, so {left or 'no'} more would be allowed."
        )
    if losses := int(status.get("nodeLosses") or 0):
        yield f"Nodes were lost {_times(losses)}, which never counts toward maxRestarts."
    if replaced := int(status.get("podReplacements") or 0):
        yield f"{pluralize(replaced, 'failed pod')} replaced; backoffLimit is {spec.get('backoffLimit', 6)}."
    if not (restarts or losses or replaced) and status.get("rendezvousRound"):
        yield "Nothing has failed so far." if status.get("phase") not in _ENDED else "Nothing failed."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _last_failure(status: Mapping[str, Any], now_s: float) -> Iterator[str]:
    failure = read_last_failure(status)
    if failure is None:
        return
    at_s = parse_time(failure.time)
    when = "" if at_s is None else f" at {clock(at_s)} ({age(now_s - at_s)} ago)"
    yield sentence(f"The last failure{when}: {failure_text(failure)}")


def _nodes(status: Mapping[str, Any]) -> Iterator[str]:
    if status.get("phase") in {*_ENDED, "Suspended"}:
        return
    missing = [node for node in status.get("nodes") or () if node.get("state") not in _RUNNING]
    for node in missing[:_MAX_NODES]:
        where = f" on {node['nodeName']}" if node.get("nodeName") else ", on no node yet"
        why = f": {node['reason']}" if node.get("reason") else ""
        yield f"  {node.get('podName')}{where} is {str(node.get('state') or 'unknown').lower()}{why}"
    if len(missing) > _MAX_NODES:
        yield f"  and {len(missing) - _MAX_NODES} more"


def _history_lines(history_entries: Sequence[HistoryEntry]) -> Iterator[str]:
    shown = list(history_entries)[-_MAX_ENTRIES:]
    if len(history_entries) > len(shown):
        yield f"  ({len(history_entries) - len(shown)} earlier events are left out)"
    for each in shown:
        again = f" ({each.count} times)" if each.count > 1 else ""
        yield f"  {clock(each.time_s)}  {each.reason}: {sentence(each.message)}{again}"
