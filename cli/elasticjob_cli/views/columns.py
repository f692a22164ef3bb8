"""Jobs as rows for `elasticjob get`: the columns of the CRD, and more of them with -o wide."""

from collections.abc import Mapping, Sequence
from typing import Any

from elasticjob_cli.views.text import age, align, one_line, parse_time

_HEAD = ("NAME", "PHASE", "READY", "DESIRED", "RESTARTS", "AGE")
_WIDE = ("ROUND", "WORKERS", "LOSSES", "PROGRESS", "RANK 0", "REASON", "MESSAGE")


def table(jobs: Sequence[Mapping[str, Any]], *, now_s: float, wide: bool, namespaces: bool) -> list[str]:
    """Return a line for the head and one for each job."""
    head = (*(["NAMESPACE"] if namespaces else []), *_HEAD, *(_WIDE if wide else ("REASON",)))
    return align([head, *(_row(job, now_s, wide=wide, namespaces=namespaces) for job in jobs)])


def _row(job: Mapping[str, Any], now_s: float, *, wide: bool, namespaces: bool) -> tuple[str, ...]:
    meta, spec, status = job.get("metadata") or {}, job.get("spec") or {}, job.get("status") or {}
    created_s = parse_time(meta.get("creationTimestamp"))
    plain = (
        str(meta.get("name", "")),
        str(status.get("phase") or "Pending"),
        str(status.get("readyReplicas") or 0),
        str(status.get("desiredReplicas") or spec.get("replicas") or 1),
        str(status.get("restarts") or 0),
        "-" if created_s is None else age(now_s - created_s),
    )
    more = _wide(status) if wide else (str(status.get("reason") or ""),)
    return (*([str(meta.get("namespace", ""))] if namespaces else []), *plain, *more)


def _wide(status: Mapping[str, Any]) -> tuple[str, ...]:
    share = (status.get("progress") or {}).get("percentage")
    return (
        str(status.get("rendezvousRound") or 0),
        str(status.get("worldSize") or 0),
        str(status.get("nodeLosses") or 0),
        "-" if share is None else f"{share}%",
        str(status.get("masterPod") or "-"),
        str(status.get("reason") or "-"),
        one_line(str(status.get("message") or "-")),
    )
