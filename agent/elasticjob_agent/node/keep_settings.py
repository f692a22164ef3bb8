"""The settings of Keep on one node."""

from dataclasses import dataclass
from pathlib import Path

from elasticjob_api import constants

_GRACE_LEFT_S = 8.0
"""A pod's grace is ten seconds longer than that of its workers. Two of them are for the agent's last writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files: a certificate for clients and servers, its key, and the authority that peers trust."""

    certificate: str
    key: str
    authority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistSettings:
    """Where and how often committed steps are written to a directory that all nodes share."""

    directory: Path
    every_s: float = constants.KEEP_PERSIST_EVERY_S
    """Seconds between two persisted steps."""
    keep: int = constants.KEEP_PERSIST_KEEP
    """How many of the newest whole steps stay."""
    may_resume: bool = True
    """Whether a new run may begin from a step of an earlier one."""
    persisted_step: int | None = None
    """The number of a step that was there: it or a higher one must be found. None: none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings:
    """Where and how this node keeps steps."""

    directory: Path
    is_shared: bool = True
    """Whether other agents may use the same directory. In a pod its volume is the directory."""
    size_limit: int | None = None
    """Bytes; None: the whole file system of the directory."""
    copies: int = constants.KEEP_COPIES
    """At how many other nodes each part has a copy."""
    bandwidth: int = constants.KEEP_BANDWIDTH_BYTES
    """Bytes a second of all copies while workers run; 0: unlimited."""
    restore_timeout_s: float = constants.KEEP_RESTORE_TIMEOUT_S
    linger_s: float = constants.KEEP_LINGER_S
    """How long a node that leaves serves its steps at most, after its workers have stopped."""
    tls: TlsFiles | None = None
    persist: PersistSettings | None = None
    """None: steps are kept in memory only."""


def pod_linger_s(size_limit: int | None, *, persists: bool) -> float:
    """Return how long a pod with a volume of so many bytes may linger without being killed."""
    if size_limit is None or persists:  # a disk may be slower than the network, and the operator allows for that
        return constants.KEEP_LINGER_S
    return min(constants.KEEP_LINGER_S, size_limit / constants.KEEP_LINGER_BYTES_PER_S + _GRACE_LEFT_S)
