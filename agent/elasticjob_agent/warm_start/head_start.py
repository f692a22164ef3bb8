"""The order in which warm workers start: rank 0 opens MASTER_PORT before the other ranks dial it.

Warm workers reach the process group within milliseconds of each other. torch's TCPStore sleeps for 0.25 to 0.75 s after
a refused connection. So the other ranks of rank 0's node wait until the port has a listener, and those of other nodes
for a fixed time.

They do not probe the port of another node by a connection. torch's store bears that. But MASTER_PORT belongs to the
script: a server that accepts one connection for each rank would count the probe, and XGBoost's tracker warns about it.

Nor does rank 0's agent send them a message. Agents have links to the leader only, which is any of them, so that would
be two hops. A link carries nothing after its hello: its end alone has a meaning. A write to etcd takes as long as the
wait.
"""

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"
_ADDRESS, _STATE = 1, 3
"""Columns of the tables."""
_PAUSE_S = 0.002
_OTHER_NODES_S = 0.02
"""Rank 0 of a small job has opened its port after 10 to 20 ms."""
_MAX_MISSES = 3


class HeadStart:
    """The head start of rank 0 over the other ranks, on one node."""

    def __init__(self, longest_s: float) -> None:
        """Let the other ranks of rank 0's node wait so long at most."""
        self._longest_s = longest_s
        self._misses = 0
        """Rounds in a row in which rank 0 did not open its port in time."""

    async def before_first(self, environment: Mapping[str, str]) -> None:
        """Wait on a node without rank 0; `environment` is that of the node's first worker."""
        if _master_port(environment) and not _is_rank_0(environment):
            await asyncio.sleep(_OTHER_NODES_S)

    async def after_first(self, environment: Mapping[str, str]) -> None:
        """Wait on rank 0's node until MASTER_PORT has a listener."""
        port = _master_port(environment)
        # A script that opens no such port is not waited for in every round.
        if not port or not _is_rank_0(environment) or self._misses >= _MAX_MISSES:
            return
        try:
            async with asyncio.timeout(self._longest_s):
                while not has_listener(port):  # noqa: ASYNC110 - the kernel reports no such event
                    await asyncio.sleep(_PAUSE_S)
            self._misses = 0
        except TimeoutError:
            self._misses += 1


def has_listener(port: int) -> bool:
    """Return whether a socket of this network namespace listens on this TCP port; False if that cannot be read."""
    return any(_has_listener(table, f":{port:04X}") for table in _TABLES)


def _has_listener(table: Path, end: str) -> bool:
    try:
        with table.open() as lines:
            rows = (line.split() for line in itertools.islice(lines, 1, None))
            # The kernel lists all listeners first, so that thousands of connections cost nothing.
            listeners = itertools.takewhile(lambda row: row[_STATE] == _LISTEN, rows)
            return any(row[_ADDRESS].endswith(end) for row in listeners)
    except OSError:
        return False


def _master_port(environment: Mapping[str, str]) -> int:
    text = environment.get("MASTER_PORT", "")
    return int(text) if text.isdecimal() else 0


def _is_rank_0(environment: Mapping[str, str]) -> bool:
    return environment.get("RANK") == "0"
