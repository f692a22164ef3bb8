"""PURE: what keeps pods from running, in one word and a sentence: what people look for when a job does not start.

The API server's refusal comes before a pod's own trouble: a pod that cannot be created has none; and so does a slot
that waits for its next pod.
"""

from dataclasses import dataclass

from elasticjob_operator.observed import Observed
from elasticjob_operator.policy.churn import HELD_BACK, LASTED_S, waiting
from elasticjob_operator.policy.ending import why_it_goes
from elasticjob_operator.timestamps import to_rfc3339

NOT_CREATED = "PodsNotCreated"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One word for programs, and a sentence that names the pod."""

    reason: str
    message: str


def first_trouble(seen: Observed) -> Trouble | None:
    """The first there is, pods by name; None when nothing keeps any pod from running."""
    if seen.ledger.trouble:
        return Trouble(NOT_CREATED, seen.ledger.trouble)
    if (held_back := _waiting(seen)) is not None:
        return held_back
    pods = (pod for _, pod in sorted(seen.pods.items()) if pod.live and pod.troubled)
    pod = next(pods, None)
    if pod is None:
        return None
    return Trouble(pod.reason, f"pod {pod.name}: {pod.reason}: {pod.message}".rstrip(": "))


def _waiting(seen: Observed) -> Trouble | None:
    """Of several slots the first; the moment is named, not the time to it: what is said stays the same until then."""
    due, owners, courses = waiting(seen.ledger.courses, seen.now_s), seen.owners(), seen.ledger.courses or {}
    slot = min(due.keys() & owners.keys(), default=None)
    if slot is None:
        return None
    others = ", and others too" if len(due) > 1 else ""
    went = f"{courses[slot].brief} pods in a row went before they had run for {LASTED_S:g} s"
    last = f"the last, {owners[slot].name}: {why_it_goes(owners[slot])}"
    return Trouble(
        HELD_BACK, f"slot {slot} waits for its next pod until {to_rfc3339(due[slot])}{others}: {went}; {last}"
    )
