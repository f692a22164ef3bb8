"""The fork server: the user's own Python with its modules imported once, forking function workers from then on.

Run as `python [flags] preload_server.py PLAN SOCKET_FD AGENT_PID`; PLAN is JSON {"preload", "sys_path", "supervisor"}.
The standard library and the two files of `supervisor` that it names are all it needs, and Python 3.8 is enough.

It forks only while it has one thread: a fork copies no other thread, but every lock that one holds. So a module
that starts threads when it is imported cannot be preloaded, and this says so instead of hanging later; but for
threads that themselves give way to a fork, as those of OpenBLAS do, which numpy starts.
"""

import importlib
import json
import os
import socket
import sys
import threading
import traceback
import warnings

_MAX_ERROR_LENGTH = 3000


def main() -> None:
    """Import, then serve."""
    plan = json.loads(sys.argv[1])
    agent = socket.socket(fileno=int(sys.argv[2]))
    agent_pid = int(sys.argv[3])
    sys.path[0] = plan["supervisor"]
    serve = importlib.import_module("forkserver.server").serve
    worker = importlib.import_module("function_worker").ForkedFunctionWorker()
    sys.path[:] = plan["sys_path"]
    refusal = _preload(plan["preload"])
    if refusal:
        agent.send(b"refused " + refusal.encode("utf-8", "replace")[-_MAX_ERROR_LENGTH:])
        os._exit(1)  # at once: a thread of theirs may never end
    serve(agent, agent_pid, worker)


def _preload(names: "list[str]") -> str:
    """Import these; return why that is no use, or nothing."""
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - whatever a module raises, the agent is told
            return "cannot import " + repr(name) + ":\n" + traceback.format_exc()
    if _threads() > 1:
        _test_fork()
    threads = _threads()
    if threads > 1:
        known = ", ".join(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
        return "after importing {} there are {} threads{}; such modules cannot be preloaded".format(
            ", ".join(names), threads, " (" + known + ")" if known else ""
        )
    return ""


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - without pathlib: counts native threads, too


def _test_fork() -> None:
    """Threads that a library ends before each fork (pthread_atfork), and begins anew when it needs them, end here."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of a fork beside threads: that is the trial
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
