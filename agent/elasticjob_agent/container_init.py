"""As PID 1 of a container: an init of a few lines, and the agent as its child.

The kernel gives PID 1 every orphan of the container, and no default reaction to signals. So PID 1 does just this:
reap whatever ends, pass signals on, and end as the agent ends. It forks before anything heavy is imported and
imports nothing itself, so it stays small. When it is killed, the kernel kills all the container's processes.
"""

import os
import signal
import sys

_NOT_FORWARDED = {signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP}


def run_as_init_if_pid1() -> None:
    """Return in the process that is to be the agent; if this one is PID 1, in a child of it."""
    if os.getpid() == 1:
        fork_as_init_child()


def fork_as_init_child() -> None:
    """Return in a child only; this process waits for its end and ends the same way."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    agent = os.fork()
    if agent == 0:
        os.setpgid(0, 0)  # Ctrl-C at a terminal goes to a whole group: the agent must get it once, from its init
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    sys.stdout.flush()
    os._exit(_wait_for(agent))


def _wait_for(agent: int) -> int:
    """Until the agent ends: reap, and pass on what comes. Its exit code, 128 + number for a signal."""
    while True:
        number = signal.sigwait(signal.valid_signals())
        if number not in _NOT_FORWARDED:
            os.kill(agent, number)  # it was not reaped yet, so the number is its own
        status = _reap_until_exit(agent)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _reap_until_exit(agent: int) -> int | None:
    """Everything that has ended; the agent's status if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == agent:
            found = status
