"""PURE: when a new process does again what its predecessor did: apply a job's service and budget, tell its progress.

It does not know what stands there, or how old that is, so it says it all again; but not of a thousand jobs at once,
when it has just begun and others wait for it. What a pod that is created now needs waits for nothing.
"""

import zlib
from collections.abc import Mapping

from elasticjob_operator.ledger import Ledger
from elasticjob_operator.pods import Pod

A_SECOND = 20.0
"""Jobs."""
APPLIED_FOR_S = 3000.0
"""So long it is believed that what was applied is still there; nothing watches it, and the hourly sweep is a turn."""


def upkeep_in_s(uid: str, *, jobs: int, a_second: float = A_SECOND) -> float:
    """How long after the first look at one of so many jobs; always the same for the same job."""
    return zlib.crc32(uid.encode()) / (1 << 32) * jobs / a_second


def is_doubtful(ledger: Ledger, monotonic_s: float) -> bool:
    """What was applied may have been deleted by somebody since."""
    return bool(ledger.applied) and monotonic_s >= ledger.upkeep_from_s + APPLIED_FOR_S


def keeps_up(ledger: Ledger, pods: Mapping[str, Pod], monotonic_s: float) -> bool:
    """It is time, or nobody can have applied anything before."""
    return bool(ledger.applied) or not pods or monotonic_s >= ledger.upkeep_from_s
