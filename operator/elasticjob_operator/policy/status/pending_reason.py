"""PURE: what keeps pods from running, in one word and a sentence: what people look for when a job does not start.

The API server's refusal comes before a pod's own trouble: a pod that cannot be created has none; and so does a slot
that waits for its next pod.
"""

from dataclasses import dataclass

from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.slots.replacement_backoff import HELD_BACK, LASTED_S, wait_s, waiting
from elasticjob_operator.policy.status.pod_messages import why_it_goes

NOT_CREATED, INVALID_TEMPLATE = "PodsNotCreated", "InvalidTemplate"
PREDECESSOR_RUNS = "PredecessorRuns"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One word for programs, and a sentence that names the pod."""

    reason: str
    message: str


def first_trouble(seen: Observed) -> Trouble | None:
    """The first there is, pods by name; None when nothing keeps any pod from running."""
    if (refused := seen.ledger.failed_creation) is not None:
        return Trouble(INVALID_TEMPLATE if refused.invalid else NOT_CREATED, refused.message)
    if seen.ledger.trouble:
        return Trouble(NOT_CREATED, seen.ledger.trouble)
    if (held_back := _waiting(seen)) is not None:
        return held_back
    if (waits := _waits_for_predecessor(seen)) is not None:
        return waits
    pods = (pod for _, pod in sorted(seen.pods.items()) if pod.live and pod.troubled)
    pod = next(pods, None)
    if pod is None:
        return None
    return Trouble(pod.reason, f"pod {pod.name}: {pod.reason}: {pod.message}".rstrip(": "))


def _waits_for_predecessor(seen: Observed) -> Trouble | None:
    slot = min(seen.waiting_slots(), default=None)
    if slot is None:
        return None
    name = seen.waiting_slots()[slot]
    pod = seen.pods.get(name)
    where = f" on node {pod.node_name}" if pod is not None and pod.node_name else ""
    message = f"slot {slot} gets its next pod when {name}{where} has ended (podReplacementPolicy Failed)"
    cure = "; if that node is dead, delete it or taint it node.kubernetes.io/out-of-service" if where else ""
    return Trouble(PREDECESSOR_RUNS, f"{message}{cure}")


def _waiting(seen: Observed) -> Trouble | None:
    """Of several slots the first; the moment is named, not the time to it: what is said stays the same until then."""
    due, owners, courses = waiting(seen.ledger.courses, seen.monotonic_s), seen.owners(), seen.ledger.courses or {}
    slot = min(due.keys() & owners.keys(), default=None)
    if slot is None:
        return None
    others = ", and others too" if len(due) > 1 else ""
    course = courses[slot]
    until_s = (course.over_time_s or seen.now_s) + wait_s(course.brief)
    went = f"{course.brief} pods in a row went before they had run for {LASTED_S:g} s"
    last = f"the last, {owners[slot].name}: {why_it_goes(owners[slot])}"
    return Trouble(HELD_BACK, f"slot {slot} waits for its next pod until {to_rfc3339(until_s)}{others}: {went}; {last}")
