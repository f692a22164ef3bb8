"""PURE: cpu and memory of nodes: from the status, where the operator samples, else from a metrics server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elasticjob_cli.views.text import size

_SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_CORE = 100.0
_EIGHTHS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one node; 100 is one core."""

    cpu_percent: float | None = None
    memory_bytes: float | None = None


def usages(nodes: Sequence[Mapping[str, Any]], measured: Mapping[str, Usage]) -> dict[str, Usage]:
    """By pod."""
    found = {}
    for node in nodes:
        pod = str(node.get("podName"))
        told = Usage(node.get("cpuPercent"), node.get("memoryBytes"))
        found[pod] = measured.get(pod, told) if told == Usage() else told
    return found


def parse_pod_metrics(answer: Mapping[str, Any]) -> dict[str, Usage]:
    """What `metrics.k8s.io` says of pods."""
    found = {}
    for item in answer.get("items") or ():
        used = [each.get("usage") or {} for each in item.get("containers") or ()]
        cpu = sum(quantity(str(each.get("cpu", "0"))) for each in used)
        memory = sum(quantity(str(each.get("memory", "0"))) for each in used)
        found[str(item["metadata"]["name"])] = Usage(_CORE * cpu, memory)
    return found


def quantity(text: str) -> float:
    """`250m`, `1Gi`, `3`; 0 for what is no quantity."""
    for suffixes in (_BINARY, _SUFFIXES):
        for suffix, factor in suffixes.items():
            if text.endswith(suffix):
                return _number(text.removesuffix(suffix)) * factor
    return _number(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def outliers(used: Mapping[str, Usage]) -> list[str]:
    """A line of cpu and one of memory, with the extremes by name: for more nodes than can be listed."""
    cpu = {pod: use.cpu_percent for pod, use in used.items() if use.cpu_percent is not None}
    memory = {pod: use.memory_bytes for pod, use in used.items() if use.memory_bytes is not None}
    if not cpu or not memory:
        return []
    low, high, full = min(cpu, key=cpu.__getitem__), max(cpu, key=cpu.__getitem__), max(memory, key=memory.__getitem__)
    middle = sum(cpu.values()) / len(cpu)
    return [
        f"cpu {middle:.0f}% a node, least {cpu[low]:.0f}% ({low}), most {cpu[high]:.0f}% ({high})",
        f"memory {size(sum(memory.values()) / len(memory))} a node, most {size(memory[full])} ({full})",
    ]


def levels(found: Sequence[float | None]) -> str:
    """A glyph for each: its share of the largest in eighths, or a dot where there is no sample."""
    most = max((each for each in found if each is not None), default=0.0)
    return "".join("·" if each is None else _EIGHTHS[_eighth(each, most)] for each in found)


def _eighth(value: float, most: float) -> int:
    return 0 if most <= 0 else min(len(_EIGHTHS) - 1, int(len(_EIGHTHS) * value / most))
