"""The names of the moments in a recovery trace. Agents write them, and `elasticjob timeline --trace` reads them.

A reader shows a name that it does not know as it is: a newer agent wrote it.
"""

from collections.abc import Mapping
from typing import Literal

from elasticjob_api.rendezvous_state import RoundPhase

TracePoint = Literal[
    "joined",
    "lost",
    "wiped",
    # the workers of a node
    "restored",
    "starting",
    "started",
    "failed",
    "detected",
    "stopping",
    "stopped",
    "ready",
    "done",
    # proofs that a node or the leader is gone
    "link ended",
    "link proved",
    "closer proved gone",
    # states of the rendezvous
    "proposed",
    "opened for a loss",
    "saw forming",
    "saw active",
    "saw suspended",
    "saw succeeded",
    "saw failed",
    "closer wrote forming",
    "closer wrote active",
    "closer wrote succeeded",
    "closer wrote failed",
]

SAW: Mapping[RoundPhase, TracePoint] = {
    RoundPhase.FORMING: "saw forming",
    RoundPhase.ACTIVE: "saw active",
    RoundPhase.SUSPENDED: "saw suspended",
    RoundPhase.SUCCEEDED: "saw succeeded",
    RoundPhase.FAILED: "saw failed",
}
"""A member received a state of this phase."""

LEADER_WROTE: Mapping[RoundPhase, TracePoint] = {
    RoundPhase.FORMING: "closer wrote forming",
    RoundPhase.ACTIVE: "closer wrote active",
    RoundPhase.SUCCEEDED: "closer wrote succeeded",
    RoundPhase.FAILED: "closer wrote failed",
}
"""The leader wrote a state of this phase; only the operator suspends a job."""
