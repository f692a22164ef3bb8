"""PURE: what keeps pods from running, in one word and a sentence: what people look for when a job does not start.

The API server's refusal comes before a pod's own trouble: a pod that cannot be created has none.
"""

from dataclasses import dataclass

from elasticjob_operator.observed import Observed

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
    pods = (pod for _, pod in sorted(seen.pods.items()) if pod.live and pod.troubled)
    pod = next(pods, None)
    if pod is None:
        return None
    return Trouble(pod.reason, f"pod {pod.name}: {pod.reason}: {pod.message}".rstrip(": "))
