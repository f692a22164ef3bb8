"""The preference of a pod against some nodes, in addition to the template's own affinity."""

from collections.abc import Mapping, Sequence
from typing import Any

_WEIGHT = 100


def affinity(affinity_given: Mapping[str, Any] | None, avoided: Sequence[str]) -> dict[str, Any]:
    """Return the template's affinity, with a preference against each of these nodes."""
    own = dict(affinity_given or {})
    by_node = dict(own.get("nodeAffinity") or {})
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    by_node[field] = [*(by_node.get(field) or []), *map(_avoid_term, avoided)]
    return {**own, "nodeAffinity": by_node}


def _avoid_term(node: str) -> dict[str, Any]:
    # By the node's name: its host name label may differ.
    match = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    return {"weight": _WEIGHT, "preference": {"matchFields": [match]}}
