"""PURE: how a pod ended, or why it goes, in words that a person understands without knowing kubelets."""

from collections.abc import Iterator, Mapping

from elasticjob_api.constants import EventReason
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.text import counted
from elasticjob_operator.policy.slots.ownership import Owner, Standing
from elasticjob_operator.policy.slots.replacement import Fate

MESSAGE_LIMIT = 400
_TOLD_ONE_BY_ONE = 5
"""Of more pods that go at once only the count is shown."""

_WORDS = {
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
PLAIN = frozenset({"", "Error", "Completed"})
"""Reasons that add nothing to the exit code."""


def how_it_ended(pod: Pod) -> str:
    """As `it ran out of memory (OOMKilled, exit code 137)`."""
    code = "" if pod.exit_code is None else f"exit code {pod.exit_code}"
    facts = ", ".join(fact for fact in ("" if pod.reason in PLAIN else pod.reason, code) if fact)
    words = _WORDS.get(pod.reason, _cause(pod))
    said = f"{words} ({facts})" if words and facts else words or facts or "no reason is known"
    return f"{said}: {pod.message.strip()}"[:MESSAGE_LIMIT] if pod.message.strip() else said


def _cause(pod: Pod) -> str:
    if pod.refused:
        return "its node did not admit it"
    return "the cluster ended it" if pod.disrupted else ""


def replacements(owners: Mapping[int, Owner], fates: Mapping[int, Fate], *, charged: int, left: int) -> Iterator[Event]:
    """The events of a write that replaces pods and charges so many failures; `left` more may be replaced after it."""
    chosen = [(owners[slot], fate) for slot, fate in sorted(fates.items()) if fate is not Fate.KEEP]
    # A name that no pod ever had is exchanged without an event: nothing was replaced.
    going = [(owner, fate) for owner, fate in chosen if owner.standing is not Standing.NEVER_CREATED]
    failed = sum(fate is Fate.REPLACE_COUNTED for _, fate in going)
    if len(going) > _TOLD_ONE_BY_ONE:
        message = f"{len(going)} pods are replaced; {_budget(failed, charged, left)}"
        yield Event(EventReason.POD_REPLACED, message, warning=failed > 0)
        return
    for owner, fate in going:
        counts = fate is Fate.REPLACE_COUNTED
        budget = _budget(failed if counts else 0, charged, left)
        message = f"pod {owner.name} is replaced: {why_it_goes(owner)}; {budget}"
        yield Event(EventReason.POD_REPLACED, message, warning=counts)


def _budget(failed: int, charged: int, left: int) -> str:
    if not failed:
        return "it is not counted"
    together = "" if charged == failed else " (pods that fail together count once)"
    return f"{charged} counted{together}, {counted(left, 'more failed pod')} may be replaced (backoffLimit)"


def why_it_goes(owner: Owner) -> str:
    """In words, after the name of the pod."""
    if owner.standing is Standing.GONE or owner.pod is None:
        return "it was deleted"
    if owner.standing is Standing.TERMINATING:
        return "it is being deleted"
    if owner.standing is Standing.LIVE:
        return "it runs, but its agent is gone"
    return how_it_ended(owner.pod)
