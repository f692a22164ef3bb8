"""Ends of workers in a sandbox without handles of processes: `python -m tests.integration.supervisor.no_handles`.

It prints how two workers with a process in a session of its own have ended, and what is left of them.
"""

import asyncio
import ctypes
import errno
import json
import os
import signal
import struct
import sys

import psutil

from elasticjob_agent.supervisor import Child, Command, Inherit, LineSink, Supervisor
from testing.waiting import aeventually
from tests.integration.supervisor.commands import RecordingConsole

_TREE = """
import subprocess, time
inner = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(inner.pid, flush=True)
time.sleep(1000)
"""
_PIDFD_OPEN = 434
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _take_handles() -> None:
    """Let pidfd_open(2) fail in this process and in those that it starts, as on an old kernel."""
    steps = (
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 0, 1, _PIDFD_OPEN),  # the next step if it is this one, else the one after it
        (0x06, 0, 0, _ERROR | errno.ENOSYS),
        (0x06, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0


async def _start(supervisor: Supervisor) -> tuple[Child, int]:
    """Return a worker, and the pid of the process in a session of its own."""
    out = RecordingConsole()
    command = Command(
        name="worker",
        argv=(sys.executable, "-c", _TREE),
        env=dict(os.environ),
        cwd=None,
        stdout=LineSink(None, b"", out),
        stderr=Inherit(),
    )
    [child] = await supervisor.spawn([command])
    await aeventually(lambda: out.lines, what="the inner process")
    return child, int(out.lines[0])


async def main() -> None:
    """Stop a worker, and end another one with its fork server."""
    _take_handles()
    supervisor = await Supervisor.create()
    server = supervisor.server_pid
    stopped, inner = await _start(supervisor)
    await supervisor.stop([stopped], grace_s=0)
    is_left = psutil.pid_exists(inner)
    lost, inner = await _start(supervisor)
    is_same = supervisor.server_pid == server
    os.kill(server, signal.SIGKILL)
    await lost.exit
    os.kill(inner, signal.SIGKILL)  # only PID 1 could still reach it
    print(json.dumps([stopped.exit.result().sentence, is_left, is_same, lost.exit.result().sentence]))
    await supervisor.close()


if __name__ == "__main__":
    asyncio.run(main())
