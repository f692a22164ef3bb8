"""Writes to the API server that the operator makes for one job, from `kubectl apply` to success.

The real operator runs over the in-memory cluster, which passes contract tests of the API server. Kubelets, agents and
the leader are simulated. Creates and deletions are exact. The status is written once a period at most, here of 10 ms.
So a slow machine also writes some of the states in between: a write for every event would be 40 and more.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.counts.record import Count
from elasticjob_operator.model.objects import name_of
from testing.operator_history import OperatorHistory, operator_history, running

PODS = 10
_WRITES = ("create", "apply", "delete", "delete_collection", "patch_status", "claim")


def take() -> list[Count]:
    """Return the counts of a job of ten pods that runs and has one of them replaced."""
    made, replaced = asyncio.run(_life())
    return [
        Count(f"API creates of a job of {PODS} pods", made["create"] + made["apply"]),
        Count(f"API status writes until a job of {PODS} pods runs", made["patch_status"] + made["claim"], slack=10),
        Count("API creates and deletions for a pod that failed", replaced["create"] + replaced["delete"], slack=1),
        Count("API status writes for a pod that failed", replaced["patch_status"], slack=10),
    ]


async def _life() -> tuple["Counter[str]", "Counter[str]"]:
    async with operator_history(replicas=PODS) as stage:
        writes = _counted(stage)
        await running(stage, PODS)
        made = writes.copy()
        failed = stage.pod(1)
        await stage.end_pod(failed, exit_code=1)
        others = {name_of(pod) for pod in stage.pods()}
        await stage.until("a replacement", lambda: stage.pod_names() - others)
        return made, writes - made


def _counted(stage: OperatorHistory) -> "Counter[str]":
    """Count each write of this harness's cluster from now on."""
    writes: Counter[str] = Counter()
    for name in _WRITES:
        setattr(stage.cluster, name, _counting(name, getattr(stage.cluster, name), writes))
    return writes


def _counting(
    name: str, method: Callable[..., Awaitable[Any]], writes: "Counter[str]"
) -> Callable[..., Awaitable[Any]]:
    async def count(*args: Any, **kwargs: Any) -> Any:
        writes[name] += 1
        return await method(*args, **kwargs)

    return count
