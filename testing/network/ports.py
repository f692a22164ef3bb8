"""TCP ports for servers under test."""

from collections import deque

from elasticjob_agent.net.ports import ReservedPort

_MOST_RESERVED = 256
"""Each reservation is a file descriptor, so the oldest ones end."""
_reserved: deque[ReservedPort] = deque(maxlen=_MOST_RESERVED)


def unused_port() -> int:
    """Return a port that no socket has now, and that no other test process gets while this one lives.

    It is outside of the ephemeral range. The kernel could give a port of that range to another process, before the
    server under test binds it.

    Raises:
        OSError: there is none.
    """
    port = ReservedPort()
    number = port.acquire()
    port.release()
    _reserved.append(port)
    return number
