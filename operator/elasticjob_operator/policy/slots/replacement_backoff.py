"""The backoff of a slot whose pods repeatedly end soon after their start, for reasons that do not count.

No budget ends such a loop, because pods that the cluster or a user removes are never charged. The first
`FREE_REPLACEMENTS` consecutive short-lived pods are replaced at once: no drain and no user is that quick. Each later
replacement waits twice as long as the one before, like a kubelet's crash loop backoff. A pod that has run for
`STABLE_AFTER_S` resets the count. A pod that failed and counts does not wait: backoffLimit ends that loop. A pod that
was never created is not part of the sequence: the creation has its own backoff (`creation_backoff`).
"""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_operator.model.slot_history import SlotHistory
from elasticjob_operator.model.slot_pod import PodState, SlotPod

FREE_REPLACEMENTS = 4
"""Consecutive short-lived pods of a slot that are replaced without a wait."""
STABLE_AFTER_S = 10.0
"""A pod that has run for at least this time is not short-lived."""
MAX_BACKOFF_S = 300.0
REASON = "ReplacementBackOff"
"""The reason in the status while a slot waits. A new operator process has no history, but it can read this."""

_ENDED = frozenset({PodState.ABSENT, PodState.TERMINATING, PodState.FAILED, PodState.COMPLETED})


def backoff_s(short_lived: int) -> float:
    """Return the wait in seconds after this number of consecutive short-lived pods."""
    return (
        0.0
        if short_lived <= FREE_REPLACEMENTS
        else min(MAX_BACKOFF_S, 2.0 ** min(short_lived - FREE_REPLACEMENTS - 1, 30))
    )


def update_histories(
    before: Mapping[int, SlotHistory] | None,
    owners: Mapping[int, SlotPod],
    monotonic_s: float,
    *,
    now_s: float,
    status_reason: str,
) -> dict[int, SlotHistory]:
    """Return the history of every slot in `owners`.

    Args:
        before: the histories so far; None in a new process.
        owners: the pod of each slot.
        monotonic_s: now on the monotonic clock, for all times but the next.
        now_s: now on the wall clock, for comparison with the start time of a pod, which the API server records.
        status_reason: the reason in the job's status; it is used only if `before` is None.
    """
    known = before or {}
    first = FREE_REPLACEMENTS if before is None and status_reason == REASON else 0
    return {slot: _update_history(known.get(slot), owner, monotonic_s, now_s, first) for slot, owner in owners.items()}


def _update_history(
    history: SlotHistory | None, owner: SlotPod, monotonic_s: float, now_s: float, first: int
) -> SlotHistory:
    history = history or SlotHistory(pod=owner.name, short_lived=first)
    # The slot has a new pod. If the end of the old one was not observed, the operator itself removed it.
    if history.pod != owner.name:
        short_lived = 0 if history.ended_at_s is None and _was_stable(history, monotonic_s) else history.short_lived
        history = SlotHistory(pod=owner.name, short_lived=short_lived)
    if history.ended_at_s is not None:
        return history
    if owner.state in _ENDED:
        short_lived = 0 if _was_stable(history, monotonic_s) else history.short_lived + 1
        return replace(history, ended_at_s=monotonic_s, ended_time_s=now_s, short_lived=short_lived)
    if history.running_since_s is None and owner.pod is not None and owner.pod.phase == "Running":
        ran_s = max(0.0, now_s - (owner.pod.running_since_s or now_s))
        return replace(history, running_since_s=monotonic_s - ran_s)
    return history


def _was_stable(history: SlotHistory, monotonic_s: float) -> bool:
    return history.running_since_s is not None and monotonic_s - history.running_since_s >= STABLE_AFTER_S


def backing_off(histories: Mapping[int, SlotHistory] | None, monotonic_s: float) -> dict[int, float]:
    """Return slot → the time at which its next pod may be created (monotonic clock), for slots that have to wait."""
    over = ((slot, history.ended_at_s, history.short_lived) for slot, history in (histories or {}).items())
    due = ((slot, at_s + backoff_s(short_lived)) for slot, at_s, short_lived in over if at_s is not None)
    return {slot: at_s for slot, at_s in due if at_s > monotonic_s}
