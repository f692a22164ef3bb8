"""Threads that the kernel may wake a little late, and so together: gRPC's, which look for work again and again.

After each message three of them look after 15 ms, 19, 24 and so on up to a second; what there is to do wakes them at
once in any case. With a fifth of a second of patience a quarter of an idle agent's processor time is saved. What is
late by it are gRPC's own timers: deadlines of 5 s, pings every 10 s, dials 0.2 to 2 s after one that failed.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

SLACK_S = 0.2


@contextlib.contextmanager
def patient_threads(slack_s: float = SLACK_S) -> Iterator[None]:
    """For threads that this one starts inside, and those that they start; it must not fork meanwhile.

    Where the kernel does not let itself be told, nothing changes.
    """
    told = Path(f"/proc/{threading.get_native_id()}/timerslack_ns")
    try:
        before = told.read_text()
        told.write_text(str(int(slack_s * 1e9)))
    except OSError:  # an old kernel, or no /proc that can be written
        yield
        return
    try:
        yield
    finally:
        told.write_text(before)
