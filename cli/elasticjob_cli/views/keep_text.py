"""The steps of a job that are kept in memory and on a disk: in sentences, and as a table of what each node holds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from elasticjob_cli.views.text import age, align, duration, one_line, parse_time, pluralize, sentence, size

_HEAD = ("NODE", "POD", "ON", "HELD", "STEP", "ROUND", "COPIES", "SKIPPED", "REMARK")
_ENDED = {"Succeeded", "Failed"}


def keep_sentences(spec: Mapping[str, Any], status: Mapping[str, Any], *, now_s: float) -> Iterator[str]:
    """Yield what is kept and how safely; nothing for a job without `spec.keep`."""
    if not spec.get("keep"):
        return
    kept = status.get("keep") or {}
    has_stopped = status.get("phase") in {*_ENDED, "Suspended"}
    yield _in_memory(str(status.get("phase") or ""), kept, now_s)
    if directory := one_line(str(spec["keep"].get("persistTo") or "")):
        yield from (
            persisted_sentences(kept, directory, now_s=now_s) if has_stopped else [_persisted(kept, directory, now_s)]
        )
    if skipped := int(kept.get("skipped") or 0):
        verb = "was" if skipped == 1 else "were"
        yield f"{pluralize(skipped, 'part')} {verb} dropped before copies were made, for newer ones."
    if why := _degraded(status):
        yield sentence(f"Steps are kept less safely than requested: {why}")


def persisted_sentences(kept: Mapping[str, Any], directory: str, *, now_s: float) -> Iterator[str]:
    """Yield what an ended or suspended job has on disk, and what it has lost."""
    step, last = kept.get("persistedStep"), kept.get("step")
    yield f"No step was written to {directory}." if step is None else _persisted(kept, directory, now_s)
    if last is not None and (step is None or last > step):
        yield f"Step {last} of round {kept.get('round')} was committed in memory, and is not there."
    if why := kept.get("persistError"):
        yield sentence(f"The reason: {why}")


def keep_table(status: Mapping[str, Any]) -> list[str]:
    """Return a line for the head and one for each node whose agent reports what it holds; empty without any.

    An ended job has a line before these: its nodes hold nothing any more.
    """
    rows = [_row(node, node["keep"]) for node in status.get("nodes") or () if node.get("keep")]
    if not rows:
        return []
    return [*(["When the job ended:"] if status.get("phase") in _ENDED else []), *align([_HEAD, *rows])]


def _in_memory(phase: str, kept: Mapping[str, Any], now_s: float) -> str:
    if phase == "Suspended":
        return "The job is suspended, so none of its steps is in memory."
    if phase not in _ENDED:
        return _committed(kept, now_s)
    last = "" if kept.get("step") is None else f"; step {kept['step']} of round {kept.get('round')} was committed last"
    return f"The job has ended, so none of its steps is in memory{last}."


def _committed(kept: Mapping[str, Any], now_s: float) -> str:
    held = size(int(kept.get("bytes") or 0))
    if kept.get("step") is None:
        return f"No step is committed yet; {held} are held in memory."
    copies = int(kept.get("copies") or 0)
    where = f"on its own node and on {pluralize(copies, 'other node')}" if copies else "on its own node only"
    since = _ago(kept.get("committedTime"), now_s)
    if (took := kept.get("copyMilliseconds")) is not None:
        since = f"{since}, {duration(int(took) / 1000)} after its first part" if since else ""
    step = f"Step {kept['step']} of round {kept.get('round')} is committed"
    return f"{step}{f' ({since})' if since else ''}: {where}; {held} are held in memory."


def _persisted(kept: Mapping[str, Any], directory: str, now_s: float) -> str:
    if kept.get("persistedStep") is None:
        return f"No step is in {directory} yet."
    since = _ago(kept.get("persistedTime"), now_s)
    return f"Step {kept['persistedStep']} is whole in {directory}{f' ({since})' if since else ''}."


def _ago(time: object, now_s: float) -> str:
    at_s = parse_time(time)
    return "" if at_s is None else f"{age(now_s - at_s)} ago"


def _degraded(status: Mapping[str, Any]) -> str:
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    found = (each for each in conditions if each.get("type") == "KeepDegraded" and each.get("status") == "True")
    return next((str(each.get("message") or "") for each in found), "")


def _row(node: Mapping[str, Any], kept: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(node.get("name") or "-"),
        str(node.get("podName") or "-"),
        str(node.get("nodeName") or "-"),
        size(int(kept.get("bytes") or 0)),
        *(_cell(kept, name) for name in ("step", "round", "copies", "skipped")),
        one_line(str(kept.get("degraded") or "")),
    )


def _cell(kept: Mapping[str, Any], name: str) -> str:
    value = kept.get(name)
    return "-" if value is None else str(value)
