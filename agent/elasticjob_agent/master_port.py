"""The port that rank 0 will listen on: chosen before the round closes, held until its workers start.

Chosen outside the range from which the kernel serves outgoing connections and `bind(0)`, so that nothing takes
it by accident in the moment between letting go and the worker's own bind. Held as a bound socket that does
not listen: another agent's choice fails on it, a worker with SO_REUSEADDR would not.
"""

import errno
import random
import socket
from collections.abc import Callable
from pathlib import Path

_LOWEST = 20000
_TRIES = 200
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_EPHEMERAL = 32768


class MasterPort:
    """One held port at a time, on `address`."""

    def __init__(self, address: str, choose: Callable[[int, int], int] = random.randint) -> None:
        """`choose(low, high)` gives a number from low to high, both included."""
        self._address = address
        self._choose = choose
        self._socket: socket.socket | None = None

    def renew(self) -> int:
        """Let go of the last port and hold a fresh one; its number."""
        last = self._socket
        self._socket = self._hold()
        if last is not None:
            last.close()
        port: int = self._socket.getsockname()[1]
        return port

    def release(self) -> None:
        """Let go: the worker is about to bind it. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def is_taken(self, port: int) -> bool:
        """Somebody listens at this port, at whatever address: rank 0 cannot have it on all of them."""
        family, anywhere = (socket.AF_INET6, "::") if ":" in self._address else (socket.AF_INET, "")
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((anywhere, port))
                probe.listen()
            except OSError as error:
                return error.errno == errno.EADDRINUSE
        return False

    def _hold(self) -> socket.socket:
        highest = max(_LOWEST + 1, _ephemeral_start() - 1)
        for _ in range(_TRIES):
            held = _bound(self._address, self._choose(_LOWEST, highest))
            if held is not None:
                return held
        return _bound(self._address, 0) or _bound("", 0) or _any_socket()


def _ephemeral_start() -> int:
    try:
        return int(_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _DEFAULT_EPHEMERAL


def _bound(address: str, port: int) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    candidate = socket.socket(family, socket.SOCK_STREAM)
    candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        candidate.bind((address, port))
    except OSError:
        candidate.close()
        return None
    return candidate


def _any_socket() -> socket.socket:
    """The address is not one of this host (it is translated on the way): any free port, on all of them."""
    anywhere = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    anywhere.bind(("::", 0))
    return anywhere
