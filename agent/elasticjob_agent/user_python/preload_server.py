"""The fork server with preload: the user's own Python imports modules once, and then forks function workers.

Run as `python [flags] preload_server.py PLAN SOCKET_FD AGENT_PID`; PLAN is JSON {"preload", "sys_path", "supervisor"}.
It needs only the standard library, the two modules below that it imports from the folder `supervisor`, and Python 3.8.

It forks only while it has one thread: a fork copies no other thread, but copies every lock that one holds. So a module
that starts threads when it is imported is refused with a message, instead of a hang later. Threads that end before a
fork by themselves are allowed, such as those of OpenBLAS, which numpy starts.
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
    """Import the modules, then serve the agent."""
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
        os._exit(1)  # at once: a thread of these modules may never end
    serve(agent, agent_pid, worker)


def _preload(names: "list[str]") -> str:
    """Import the modules. Return why they cannot be preloaded, or an empty text."""
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - the agent reports any error of a module
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
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - without pathlib; includes native threads


def _test_fork() -> None:
    """Fork once: some libraries end their threads before a fork (pthread_atfork)."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of a fork beside threads; here it is intended
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
