"""How the workers of a job were started, warm or cold: for a table, and in sentences.

Jobs without warm start have nothing of this in their status.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from elasticjob_cli.views.text import duration, pluralize

_MAX_REASONS = 3
_SHORT_MS = 100
"""A time below is shown in milliseconds."""

_Node = Mapping[str, Any]


def start_cell(node: _Node) -> str:
    """Return `warm`, or `cold 5.1 s` once the first output is known; empty without a start."""
    start = node.get("start") or {}
    return " ".join(filter(None, [str(start.get("kind") or "").lower(), _first_output([node])]))


def start_sentences(nodes: Sequence[_Node]) -> Iterator[str]:
    """Yield a sentence for the nodes that were started warm, and one for each reason of the others."""
    return (f"{line[0].upper()}{line[1:]}." for line in start_lines(nodes))


def start_lines(nodes: Sequence[_Node]) -> Iterator[str]:
    """Yield the same as parts of a line."""
    by_reason: dict[tuple[str, str], list[_Node]] = {}
    for node in nodes:
        if start := node.get("start"):
            by_reason.setdefault((str(start.get("kind")), str(start.get("reason") or "")), []).append(node)
    # The warm ones first, then the most frequent reason.
    ordered = sorted(by_reason.items(), key=lambda item: (item[0][0] != "Warm", -len(item[1])))
    for (kind, reason), alike in ordered[:_MAX_REASONS]:
        cause = f": {reason}" if reason else ""
        yield f"the workers of {_which(alike)} were started {kind.lower()}{_after(alike)}{cause}"
    if len(ordered) > _MAX_REASONS:
        rest = sum(len(alike) for _, alike in ordered[_MAX_REASONS:])
        yield f"the workers of {pluralize(rest, 'more node')} were started cold for other reasons"


def _which(nodes: Sequence[_Node]) -> str:
    return str(nodes[0].get("podName")) if len(nodes) == 1 else pluralize(len(nodes), "node")


def _after(nodes: Sequence[_Node]) -> str:
    wrote = [node for node in nodes if _first_output([node])]
    if not wrote:
        return ""
    who = "" if len(wrote) == len(nodes) else f"those of {len(wrote)} of them "
    most = " at most" if len(wrote) > 1 else ""
    return f" and {who}wrote their first output after {_first_output(wrote)}{most}"


def _first_output(nodes: Sequence[_Node]) -> str:
    found = [(node.get("start") or {}).get("firstOutputMilliseconds") for node in nodes]
    known = [each for each in found if each is not None]
    if not known:
        return ""
    return f"{max(known)} ms" if max(known) < _SHORT_MS else duration(max(known) / 1000)
