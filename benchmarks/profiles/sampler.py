"""A sampler of a process's processor time: samples of its main thread, each worth the time since the one before.

A timer of the process's own processor time interrupts it, some 250 times a second of that. The time that the main
thread has run since the last interrupt is counted for the current frames. So a waiting process is not disturbed, and a
working one loses 1 or 2 %. Threads of gRPC have no frames: they get the rest of the process's time. `python -m
benchmarks.profiles.sampler OUT -m MODULE …` runs a module so, from one SIGUSR1 to the next, into a file.
"""

import asyncio
import json
import resource
import runpy
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.profiles.layers import layer_of

EVERY_S = 0.002
"""The requested period; the kernel checks at its ticks, of which there are 100 to 1,000 a second."""
THREADS, KERNEL, UNSEEN = "other threads (gRPC's)", "other threads, in the kernel", "after the last sample"
_ROOT = "_run_once"
"""The function of one turn of asyncio's loop: its callers are the same in every stack."""


class Sampler:
    """A sampler of this process; only the main thread may use it."""

    def __init__(self) -> None:
        self.layers: Counter[str] = Counter()
        """Microseconds."""
        self.stacks: Counter[str] = Counter()
        self._last_s = 0.0
        self._before: tuple[float, ...] = ()

    def start(self) -> None:
        """Begin to sample."""
        self.layers.clear()
        self.stacks.clear()
        signal.signal(signal.SIGPROF, self._on)
        self._before = _used()
        self._last_s = time.thread_time()
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)

    def stop(self) -> dict[str, float]:
        """Stop; return seconds by layer, with other threads and the time after the last sample: the whole use."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)  # the last one may be on its way
        whole_s, kernel_s, main_s, main_kernel_s = (now - then for now, then in zip(_used(), self._before, strict=True))
        others_s, others_kernel_s = max(0.0, whole_s - main_s), max(0.0, kernel_s - main_kernel_s)
        found = {layer: used_us / 1e6 for layer, used_us in self.layers.items()}
        others = {THREADS: max(0.0, others_s - others_kernel_s), KERNEL: min(others_s, others_kernel_s)}
        return {**found, **others, UNSEEN: max(0.0, main_s - sum(found.values()))}

    def _on(self, _signal: int, frame: FrameType | None) -> None:
        used_us = int((time.thread_time() - self._last_s) * 1e6)
        frames = list(_outward(frame))
        self.layers[layer_of(_files(frames))] += used_us
        names = (f"{Path(each.f_code.co_filename).stem}.{each.f_code.co_name}" for each in reversed(frames))
        self.stacks[";".join(names)] += used_us
        self._last_s = time.thread_time()


def _used() -> tuple[float, ...]:
    """Return the seconds of the process, those in the kernel, and the same of this thread."""
    process, thread = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_THREAD)
    return (time.process_time(), process.ru_stime, time.thread_time(), thread.ru_stime)


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = None if frame.f_code.co_name == _ROOT else frame.f_back


def _files(frames: list[FrameType]) -> Iterator[str]:
    """Yield each frame's file; for the loop's callbacks also the owner's, since gRPC's own have no frame."""
    for frame in frames:
        if frame.f_code.co_name == "_run" and isinstance(handle := frame.f_locals.get("self"), asyncio.Handle):
            yield _owner(handle)
        yield frame.f_code.co_filename


def _owner(handle: asyncio.Handle) -> str:
    callback: Any = getattr(handle, "_callback", None)
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        owner = owner.get_coro()
    return f"{type(callback).__module__}.{type(callback).__name__} {type(owner).__module__} {callback!r}"


def main() -> None:
    """OUT -m MODULE ARGUMENTS: run the module, sampled between two signals."""
    out, _, module = sys.argv[1:4]
    sampler, running = Sampler(), False

    def turn(*_: object) -> None:
        nonlocal running
        running = not running
        if running:
            sampler.start()
        else:
            Path(out).write_text(json.dumps({"layers": sampler.stop(), "stacks": sampler.stacks}))

    signal.signal(signal.SIGUSR1, turn)
    sys.argv[:] = [module, *sys.argv[4:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
