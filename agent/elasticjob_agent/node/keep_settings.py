"""The settings of Keep on one node."""

from dataclasses import dataclass
from pathlib import Path

from elasticjob_api import constants

DEFAULT_COPIES = 1
DEFAULT_BANDWIDTH = 256 << 20
"""Bytes a second of all copies while workers run."""
DEFAULT_RESTORE_TIMEOUT_S = 120.0
MOST_COPIES = 3
_GRACE_LEFT_S = 8.0
"""A pod's grace is ten seconds longer than that of its workers. Two of them are for the agent's last writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files: a certificate for clients and servers, its key, and the authority that peers trust."""

    certificate: str
    key: str
    authority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings:
    """Where and how this node keeps steps."""

    directory: Path
    is_shared: bool = True
    """Whether other agents may use the same directory. In a pod its volume is the directory."""
    size_limit: int | None = None
    """Bytes; None: the whole file system of the directory."""
    copies: int = DEFAULT_COPIES
    """At how many other nodes each part has a copy."""
    bandwidth: int = DEFAULT_BANDWIDTH
    """Bytes a second of all copies while workers run; 0: unlimited."""
    restore_timeout_s: float = DEFAULT_RESTORE_TIMEOUT_S
    linger_s: float = constants.KEEP_LINGER_S
    """How long a node that leaves serves its steps at most, after its workers have stopped."""
    tls: TlsFiles | None = None


def pod_linger_s(size_limit: int | None) -> float:
    """Return how long a pod with a volume of so many bytes may linger without being killed."""
    if size_limit is None:
        return constants.KEEP_LINGER_S
    return min(constants.KEEP_LINGER_S, size_limit / constants.KEEP_LINGER_BYTES_PER_S + _GRACE_LEFT_S)
