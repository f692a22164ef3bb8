"""Read the things that a process has besides its modules: threads, descriptors, children, timers, shared memory.

A fork copies none of it, or shares it between all workers. So a zygote in which an import has left some is not used.
The next one is built without the module whose import has left it, if that is known.
"""

import contextlib
import os
import signal
import threading

from . import libc

_ALLOWED_THREADS = {"jemalloc_bg_thd"}
"""Native threads that survive a fork by their own handlers: that of pyarrow's allocator."""
_TIMERS = {
    "ITIMER_REAL": signal.ITIMER_REAL,
    "ITIMER_VIRTUAL": signal.ITIMER_VIRTUAL,
    "ITIMER_PROF": signal.ITIMER_PROF,
}

_FORK_FLAGS = {"dc": "no fork", "wf": "empty fork"}
"""Flag of memory in `/proc/PID/smaps` → kind of the fact."""
_OF_TRACERS = "[uprobes]"
"""Memory that the kernel adds while a tracer of the node watches a library."""


def read_facts() -> "dict[tuple[str, str], str]":
    """Return threads, descriptors, children, timers, and whether it is a subreaper."""
    facts = {("descriptor", str(fd)): target for fd, target in descriptors().items()}
    names = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    for task in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/" + task + "/comm") as file:
                name = file.read().strip()
            with open("/proc/self/task/" + task + "/children") as file:
                facts.update((("child", pid), "process " + pid) for pid in file.read().split())
        except OSError:
            continue  # this thread has just ended, or this kernel does not list children
        if int(task) != os.getpid() and name not in _ALLOWED_THREADS:
            facts["thread", task] = names.get(task, name)  # the kernel's name of a Python thread is that of its process
    for name, timer in _TIMERS.items():
        if signal.getitimer(timer)[0]:
            facts["timer", name] = name
    if libc.is_subreaper():
        facts["subreaper", ""] = "prctl(PR_SET_CHILD_SUBREAPER)"
    return facts


def descriptors() -> "dict[int, str]":
    """Return the open descriptors of this process, each with what it refers to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def read_shared_memory() -> "dict[tuple[str, str], str]":
    """Return the writable memory that all forks would share, for example that of a lock between processes."""
    facts = {}
    with open("/proc/self/maps") as file:
        for line in file:
            addresses, permissions, _, _, _, *name = line.split(None, 5)
            if permissions[1] == "w" and permissions[3] == "s":
                facts["memory", addresses] = "".join(name).strip() or "anonymous"
    return facts


def read_memory_without_forks() -> "dict[tuple[str, str], str]":
    """Return the memory that a forked process does not have, or finds empty; nothing where the kernel lists no flags.

    The kernel counts all pages for that, which takes 20 to 40 ms with torch. So this is read once.
    """
    facts: "dict[tuple[str, str], str]" = {}
    addresses = name = ""
    with contextlib.suppress(OSError), open("/proc/self/smaps") as file:
        for line in file:
            first, *words = line.split()
            if not first.endswith(":"):
                addresses, name = first, " ".join(words[4:])
            elif first == "VmFlags:" and "dp" not in words and name != _OF_TRACERS:  # C's own has dp
                found = (kind for flag, kind in _FORK_FLAGS.items() if flag in words)
                facts.update(((kind, addresses), name or "anonymous") for kind in found)
    return facts


def has_posix_timers() -> bool:
    """Whether this process has timers of timer_create(); False where the kernel does not list them."""
    try:
        with open("/proc/self/timers") as file:
            return bool(file.read(1))
    except OSError:
        return False
