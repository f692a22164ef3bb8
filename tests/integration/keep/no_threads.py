"""A process that has no thread left, as at a limit of processes."""

import contextlib
import threading
from collections.abc import Iterator

_LARGER_THAN_THE_ADDRESS_SPACE = 1 << 47


@contextlib.contextmanager
def no_thread_left() -> Iterator[None]:
    """Let no further thread of this process start."""
    before = threading.stack_size(_LARGER_THAN_THE_ADDRESS_SPACE)
    try:
        yield
    finally:
        threading.stack_size(before)
