"""A minimal init for a container: PID 1 forks the agent as its child and supervises it.

The kernel makes PID 1 the parent of every orphan of the container, and gives it no default reaction to signals. So
PID 1 does three things: it reaps each process that ends, forwards signals to the agent, and exits as the agent exits.
It forks before any heavy import and imports nothing itself, so it stays small. If PID 1 is killed, the kernel kills
all processes of the container.
"""

import os
import signal
import sys

_NOT_FORWARDED = {signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP}


def run_as_init_if_pid1() -> None:
    """Return in the process that becomes the agent: this one, or a child of it if this one is PID 1."""
    if os.getpid() == 1:
        fork_as_init_child()


def fork_as_init_child() -> None:
    """Return in the child only; this process waits for the child and exits with its exit code."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    agent = os.fork()
    if agent == 0:
        os.setpgid(0, 0)  # a terminal sends Ctrl-C to a whole group: the agent must get it once, from its init
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    sys.stdout.flush()
    os._exit(_wait_for(agent))


def _wait_for(agent: int) -> int:
    """Reap children and forward signals until the agent ends. Return its exit code; 128 + number for a signal."""
    while True:
        number = signal.sigwait(signal.valid_signals())
        if number not in _NOT_FORWARDED:
            os.kill(agent, number)  # the agent has not been reaped yet, so no other process can have its pid
        status = _reap_until_exit(agent)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _reap_until_exit(agent: int) -> int | None:
    """Reap all children that have ended. Return the agent's wait status if it is one of them, else None."""
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
