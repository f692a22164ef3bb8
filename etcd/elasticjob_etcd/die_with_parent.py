"""Ties a program's life to its parent's: `python -I -S die_with_parent.py <parent pid> program args...`.

Run as a script, never imported for its code. It asks the kernel for SIGKILL at the parent's death and execs the
program. So an embedded etcd cannot outlive its parent, however that ended. It runs after the exec, because code between
fork and exec (`preexec_fn`) may deadlock where gRPC's threads run. Standard library only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Exec `command`; exit 127 if that fails, and 0 without a message if `parent` is dead already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit(0)  # it died before prctl: the kernel would not signal its death
    try:
        os.execv(command[0], command)  # noqa: S606  # replaces this process on purpose
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
