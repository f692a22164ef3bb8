"""PURE: how long a slot waits for its next pod when its pods go as soon as they come, for reasons that do not count.

Pods that the cluster or a person removes are never charged, so no budget ends such a loop. The first
`FREE_REPLACEMENTS` pods in a row of which none lasted are replaced at once: no drain and no person is that quick. Each
later replacement waits twice as long as the one before, as with a kubelet's crash loop. A pod that has run for
`STABLE_AFTER_S` ends the row. A pod that failed and counts does not wait: backoffLimit ends the loop. A pod that was
never created is not in the row: the creation itself backs off (`creation_backoff`).
"""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_operator.model.slot_history import SlotHistory
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod

FREE_REPLACEMENTS = 4
"""Pods of a slot that may go in a row before the next one has to wait."""
STABLE_AFTER_S = 10.0
"""A pod that has run for so long has lasted."""
MAX_BACKOFF_S = 300.0
REASON = "ReplacementBackOff"
"""The reason in the status while a slot waits: a process that begins then has no memory, but it knows this."""

_ENDED = frozenset({PodState.ABSENT, PodState.TERMINATING, PodState.FAILED, PodState.COMPLETED})


def backoff_s(short_lived: int) -> float:
    """Return how long the next pod waits after so many in a row that did not last."""
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
    events: str,
) -> dict[int, SlotHistory]:
    """The course of every slot that there is; without any `before`, `events` is the reason in the job's status.

    The API server's wall clock says since when a pod runs (`now_s` is compared with it); the rest is monotonic.
    """
    known = before or {}
    first = FREE_REPLACEMENTS if before is None and events == REASON else 0
    return {slot: _update_history(known.get(slot), owner, monotonic_s, now_s, first) for slot, owner in owners.items()}


def _update_history(
    history: SlotHistory | None, owner: SlotPod, monotonic_s: float, now_s: float, first: int
) -> SlotHistory:
    history = history or SlotHistory(pod=owner.name, short_lived=first)
    if history.pod != owner.name:  # its successor; if nobody has seen it go, it went for a reason of our own
        brief = 0 if history.ended_at_s is None and _was_stable(history, monotonic_s) else history.short_lived
        history = SlotHistory(pod=owner.name, short_lived=brief)
    if history.ended_at_s is not None:
        return history
    if owner.state in _ENDED:
        brief = 0 if _was_stable(history, monotonic_s) else history.short_lived + 1
        return replace(history, ended_at_s=monotonic_s, ended_time_s=now_s, short_lived=brief)
    if history.running_since_s is None and owner.pod is not None and owner.pod.phase == "Running":
        ran_s = max(0.0, now_s - (owner.pod.running_since_s or now_s))
        return replace(history, running_since_s=monotonic_s - ran_s)
    return history


def _was_stable(history: SlotHistory, monotonic_s: float) -> bool:
    return history.running_since_s is not None and monotonic_s - history.running_since_s >= STABLE_AFTER_S


def backing_off(histories: Mapping[int, SlotHistory] | None, monotonic_s: float) -> dict[int, float]:
    """Slot → when its next pod may come (monotonic clock), of those that have to wait for it."""
    over = ((slot, history.ended_at_s, history.short_lived) for slot, history in (histories or {}).items())
    due = ((slot, at_s + backoff_s(brief)) for slot, at_s, brief in over if at_s is not None)
    return {slot: at_s for slot, at_s in due if at_s > monotonic_s}
