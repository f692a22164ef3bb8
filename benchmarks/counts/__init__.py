"""What `make bench-check` counts; each function returns its counts and needs no tool but etcd's binary."""

from collections.abc import Callable

from benchmarks.counts import calls, etcd_work, kube_writes, processes
from benchmarks.counts.record import Count

COUNTERS: dict[str, Callable[[], list[Count]]] = {
    "calls": calls.take,
    "etcd": etcd_work.take,
    "kube": kube_writes.take,
    "processes": processes.take,
}
