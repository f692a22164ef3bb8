"""Cpu and memory of nodes and ranks: from the status if the operator samples, else from a metrics server.

A metrics server has the usage of nodes only. So has the status if its list of ranks would become too long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elasticjob_api.quantity import parse_quantity
from elasticjob_cli.views.text import size

_CORE = 100.0
_RUNS = "R"
_EIGHTHS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of one node or rank; 100 is one core."""

    cpu_percent: float | None = None
    memory_bytes: float | None = None


def usages(nodes: Sequence[Mapping[str, Any]], measured: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the usage of each pod."""
    found = {}
    for node in nodes:
        pod = str(node.get("podName"))
        reported = Usage(node.get("cpuPercent"), node.get("memoryBytes"))
        found[pod] = measured.get(pod, reported) if reported == Usage() else reported
    return found


@dataclass(frozen=True, slots=True)
class RankUsage:
    """The usage of one rank of the round."""

    rank: int
    pod: str
    letter: str
    usage: Usage


def rank_usages(nodes: Sequence[Mapping[str, Any]], of_nodes: Mapping[str, Usage]) -> list[RankUsage]:
    """Return the usage of each rank in order, or nothing if one is unknown; `nodes` are in the order of ranks."""
    found: list[RankUsage] = []
    for node in nodes:
        if node.get("rank") is None:
            continue
        letters, pod = str(node.get("ranks") or ""), str(node.get("podName"))
        if (used := _of_workers(node, len(letters), of_nodes.get(pod, Usage()))) is None:
            return []
        at = len(found)
        found += [RankUsage(at + i, pod, letters[i], _while_running(letters[i], use)) for i, use in enumerate(used)]
    return found


def _while_running(letter: str, use: Usage) -> Usage:
    return use if letter == _RUNS else Usage()


def _of_workers(node: Mapping[str, Any], workers: int, of_node: Usage) -> list[Usage] | None:
    if workers == 1:
        return [of_node]
    cpu, memory = node.get("rankCpuPercent") or (), node.get("rankMemoryBytes") or ()
    if workers == len(memory):
        return [*map(Usage, cpu if len(cpu) == workers else [None] * workers, memory)]
    return [Usage()] * workers if of_node == Usage() else None


def parse_pod_metrics(answer: Mapping[str, Any]) -> dict[str, Usage]:
    """Return the usage of pods in an answer of `metrics.k8s.io`."""
    found = {}
    for item in answer.get("items") or ():
        used = [each.get("usage") or {} for each in item.get("containers") or ()]
        cpu = sum(_number(each.get("cpu")) for each in used)
        memory = sum(_number(each.get("memory")) for each in used)
        found[str(item["metadata"]["name"])] = Usage(_CORE * cpu, memory)
    return found


def _number(quantity: Any) -> float:
    """Return the number; 0 for anything that is not a quantity."""
    try:
        return float(parse_quantity(quantity))
    except ValueError:
        return 0.0


def outliers(used: Mapping[str, Usage], unit: str) -> list[str]:
    """Return a line for cpu and one for memory, with the names of the extremes; `unit` is node or rank."""
    cpu = {name: use.cpu_percent for name, use in used.items() if use.cpu_percent is not None}
    memory = {name: use.memory_bytes for name, use in used.items() if use.memory_bytes is not None}
    if not cpu or not memory:
        return []
    low, high, full = min(cpu, key=cpu.__getitem__), max(cpu, key=cpu.__getitem__), max(memory, key=memory.__getitem__)
    middle = sum(cpu.values()) / len(cpu)
    return [
        f"cpu {middle:.0f}% a {unit}, least {cpu[low]:.0f}% ({low}), most {cpu[high]:.0f}% ({high})",
        f"memory {size(sum(memory.values()) / len(memory))} a {unit}, most {size(memory[full])} ({full})",
    ]


def usage_levels(found: Sequence[float | None]) -> str:
    """Return a glyph for each: its share of the largest in eighths, or a dot without a sample."""
    most = max((each for each in found if each is not None), default=0.0)
    return "".join("·" if each is None else _EIGHTHS[_eighth(each, most)] for each in found)


def _eighth(value: float, most: float) -> int:
    return 0 if most <= 0 else min(len(_EIGHTHS) - 1, int(len(_EIGHTHS) * value / most))
