"""Pods whose agent joined before this operator process started, according to the rounds in the status.

A pod that is older than a round of its slot was in that round: a slot has one pod at a time.
"""

from collections.abc import Iterable

from elasticjob_api.slot_ranges import parse_slots
from elasticjob_api.status import RoundStatus
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.timestamps import from_rfc3339


def joined_before(rounds: Iterable[RoundStatus], pods: Iterable[Pod]) -> frozenset[str]:
    """Return the uids of the pods that took part in one of these rounds."""
    with_slot = [(pod.slot, pod) for pod in pods if pod.slot is not None]
    highest = max((slot for slot, _ in with_slot), default=-1)
    last_s: dict[int, float] = {}
    for round_ in rounds:
        began_s = from_rfc3339(round_.start_time) or 0.0
        last_s |= {slot: max(began_s, last_s.get(slot, 0.0)) for slot in parse_slots(round_.slots, highest=highest)}
    return frozenset(pod.uid for slot, pod in with_slot if pod.created_s < last_s.get(slot, 0.0))
