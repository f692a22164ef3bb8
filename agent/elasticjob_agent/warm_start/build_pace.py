"""For how long a zygote may run while it repeats the imports, so that training does not become slower.

The imports take seconds of a processor. A free processor is theirs. Without one they get a tenth of a processor, so
that they end at all. A processor that is idle half of the time is not free. Its worker waits for another one then, and
would wait for the zygote next.

The zygote's priority stays as it is: its workers would inherit it, and most pods may not raise it again. Its processors
stay too: libraries choose the number of their threads by them when they are imported.
"""

from elasticjob_agent.host.cpu import CpuSample

PERIOD_S = 0.1
MIN_SHARE = 0.1
"""The part of a processor that the zygote gets on a machine without a free one."""
_FREE = 0.9
"""A processor that is idle for this part of the time counts as free: the kernel counts in hundredths of a second."""
_MIN_SPEED = 0.01


def share_to_run(before: CpuSample, now: CpuSample, last_share: float) -> float:
    """Return the part of the next period in which the zygote may run: at least MIN_SHARE, at most 1.

    Args:
        before: at the begin of the last period.
        now: at its end.
        last_share: the part of that period in which it was allowed to run.
    """
    passed_s = now.at_s - before.at_s
    if passed_s <= 0:
        return MIN_SHARE
    used = (now.process_s - before.process_s) / passed_s
    # Below 1 it has waited: for a processor that another process had, or for a disk.
    speed = min(used / last_share, 1.0)
    own = used if speed >= _FREE else 0.0
    unused = min(_unused_processor(before, now, passed_s, own), _unused_quota(before, now, passed_s))
    if unused >= _FREE:
        return 1.0
    return min(MIN_SHARE / max(speed, _MIN_SPEED), 1.0)


def _unused_processor(before: CpuSample, now: CpuSample, passed_s: float, own: float) -> float:
    """Return the part of the time in which others did not need the processor that they needed least."""
    unused = {cpu: (idle_s - before.idle_s.get(cpu, idle_s)) / passed_s for cpu, idle_s in now.idle_s.items()}
    if now.last_cpu in unused:
        unused[now.last_cpu] += own
    return max(unused.values(), default=0.0)


def _unused_quota(before: CpuSample, now: CpuSample, passed_s: float) -> float:
    """Return the processors of the cgroup's quota that others than the zygote have not used."""
    if now.throttled > before.throttled:
        return 0.0
    if now.quota is None:
        return 1.0
    others_s = (now.used_s - before.used_s) - (now.process_s - before.process_s)
    return now.quota - others_s / passed_s
