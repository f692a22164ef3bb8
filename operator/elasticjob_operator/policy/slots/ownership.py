"""PURE: what has become of the pod that owns a slot, from the pod cache and what this process knows beyond it.

An absent pod is not a gone pod: caches lag. Only a delivered deletion, or a 404, is proof of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from elasticjob_operator.model.job_state import Ledger, NameState
from elasticjob_operator.model.pod import Pod


class Standing(Enum):
    """The state of a slot's pod."""

    TO_CREATE = "to create"  # this process wrote the name and has not created it yet
    COMING = "coming"  # created; the watch will show it
    TO_LOOK = "to look"  # not known: ask the API server
    LIVE = "live"
    TERMINATING = "terminating"
    FAILED = "failed"
    COMPLETED = "completed"  # its containers ended well, though the job had not
    GONE = "gone"
    NEVER_CREATED = "never created"  # the request to create it failed; its name is not used again


_BY_NAME = {
    NameState.OURS: Standing.TO_CREATE,
    NameState.COMING: Standing.COMING,
    NameState.DOUBTFUL: Standing.TO_LOOK,
    NameState.VANISHED: Standing.GONE,
    NameState.NEVER_CREATED: Standing.NEVER_CREATED,
}


@dataclass(frozen=True, slots=True)
class Owner:
    """A slot's pod: its name in the map, what became of it, and the pod itself where the cache has it."""

    name: str
    standing: Standing
    pod: Pod | None = None


def owners(slots: Mapping[int, str], pods: Mapping[str, Pod], ledger: Ledger, monotonic_s: float) -> dict[int, Owner]:
    """The owner of every slot of the map; `pods` are by name."""
    return {slot: _owner(name, pods.get(name), ledger, monotonic_s) for slot, name in slots.items()}


def _owner(name: str, pod: Pod | None, ledger: Ledger, monotonic_s: float) -> Owner:
    if pod is None or pod.uid in ledger.gone_uids:
        return Owner(name, _BY_NAME[ledger.state_of(name, monotonic_s)])
    return Owner(name, _standing(pod), pod)


def _standing(pod: Pod) -> Standing:
    # Deletion first: the containers of a deleted pod end with any code, and that is no failure.
    if pod.terminating:
        return Standing.TERMINATING
    if pod.phase == "Failed":
        return Standing.FAILED
    return Standing.COMPLETED if pod.phase == "Succeeded" else Standing.LIVE
