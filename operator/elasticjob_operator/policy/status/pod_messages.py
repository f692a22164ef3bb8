"""Messages about the end or the replacement of a pod, for users without knowledge of the kubelet."""

from collections.abc import Iterator, Mapping

from elasticjob_api.constants import EventReason
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.policy.slots.replacement import PodDecision

MESSAGE_LIMIT = 400
_MAX_LISTED = 5
"""If more pods are replaced at once, one event has only their number."""

_CAUSE_TEXTS = {
    "OOMKilled": "it ran out of memory",
    "Evicted": "it was evicted",
    "Preempting": "it was preempted",
    "NodeShutdown": "its node was shut down",
    "Shutdown": "its node was shut down",
    "Terminated": "its node was shut down",
    "NodeLost": "its node was lost",
    "ContainerCannotRun": "its container could not be started",
    "StartError": "its container could not be started",
}
GENERIC_REASONS = frozenset({"", "Error", "Completed"})
"""Reasons that add nothing to the exit code."""


def describe_exit(pod: Pod) -> str:
    """Return a text such as `it ran out of memory (OOMKilled, exit code 137)`."""
    code = "" if pod.exit_code is None else f"exit code {pod.exit_code}"
    facts = ", ".join(fact for fact in ("" if pod.reason in GENERIC_REASONS else pod.reason, code) if fact)
    cause = _CAUSE_TEXTS.get(pod.reason, _exit_cause(pod))
    text = f"{cause} ({facts})" if cause and facts else cause or facts or "the reason is unknown"
    return f"{text}: {pod.message.strip()}"[:MESSAGE_LIMIT] if pod.message.strip() else text


def _exit_cause(pod: Pod) -> str:
    if pod.is_rejected:
        return "its node did not admit it"
    if pod.is_lost:
        return "its node lost it"
    return "the cluster ended it" if pod.is_disrupted else ""


def describe_replacements(
    owners: Mapping[int, SlotPod], decisions: Mapping[int, PodDecision], *, charged: int, left: int
) -> Iterator[Event]:
    """Yield the events of a write that replaces pods.

    Args:
        owners: the pod of each slot.
        decisions: the decision for each slot.
        charged: the failures that the write counts against backoffLimit.
        left: the number of failed pods that may still be replaced after it.
    """
    chosen = [
        (owners[slot], decision) for slot, decision in sorted(decisions.items()) if decision is not PodDecision.KEEP
    ]
    # A pod that was never created gets another name without an event: nothing is replaced.
    replaced = [(owner, decision) for owner, decision in chosen if owner.state is not PodState.NEVER_CREATED]
    failed = sum(decision is PodDecision.REPLACE_COUNTED for _, decision in replaced)
    if len(replaced) > _MAX_LISTED:
        message = f"{len(replaced)} pods are replaced; {_describe_budget(failed, charged, left)}"
        yield Event(EventReason.POD_REPLACED, message, warning=failed > 0)
        return
    for owner, decision in replaced:
        counts = decision is PodDecision.REPLACE_COUNTED
        budget = _describe_budget(failed if counts else 0, charged, left)
        message = f"pod {owner.name} is replaced: {describe_replacement(owner)}; {budget}"
        yield Event(EventReason.POD_REPLACED, message, warning=counts)


def _describe_budget(failed: int, charged: int, left: int) -> str:
    if not failed:
        return "this does not count against backoffLimit"
    counted = f"{pluralize(charged, 'failure')} counted against backoffLimit"
    together = "" if charged == failed else " (pods that fail together count once)"
    return f"{counted}{together}, {pluralize(left, 'more failed pod')} may be replaced"


def describe_replacement(owner: SlotPod) -> str:
    """Return the reason for a replacement, to follow the name of the pod."""
    if owner.state is PodState.ABSENT or owner.pod is None:
        return "it was deleted"
    if owner.state is PodState.TERMINATING:
        return "it is being deleted"
    if owner.state is PodState.LIVE:
        return "it is running, but its agent is gone"
    return describe_exit(owner.pod)
