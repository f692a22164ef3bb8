"""PURE: how a pod ended, or why it goes, in words that a person understands without knowing kubelets."""

from collections.abc import Iterator, Mapping

from elasticjob_api.names import EventReason
from elasticjob_operator.event import Event
from elasticjob_operator.pods import Pod
from elasticjob_operator.policy.replacement import Fate
from elasticjob_operator.policy.standing import Owner, Standing
from elasticjob_operator.policy.words import counted

MESSAGE_LIMIT = 400
_TOLD_ONE_BY_ONE = 5
"""Of more pods that go at once only the count is told."""

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
"""Reasons that say no more than the exit code."""


def how_it_ended(pod: Pod) -> str:
    """As `it ran out of memory (OOMKilled, exit code 137)`."""
    code = "" if pod.exit_code is None else f"exit code {pod.exit_code}"
    facts = ", ".join(fact for fact in ("" if pod.reason in PLAIN else pod.reason, code) if fact)
    words = _WORDS.get(pod.reason, "the cluster ended it" if pod.disrupted else "")
    said = f"{words} ({facts})" if words and facts else words or facts or "nobody said why"
    return f"{said}: {pod.message.strip()}"[:MESSAGE_LIMIT] if pod.message.strip() else said


def replacements(owners: Mapping[int, Owner], fates: Mapping[int, Fate], *, left: int) -> Iterator[Event]:
    """The events of a write that replaces pods; `left` failures may still be replaced after it."""
    going = [(owners[slot], fate) for slot, fate in sorted(fates.items()) if fate is not Fate.KEEP]
    if len(going) > _TOLD_ONE_BY_ONE:
        failed = sum(fate is Fate.REPLACE_COUNTED for _, fate in going)
        message = f"{len(going)} pods are replaced; {_budget(failed, left)}"
        yield Event(EventReason.POD_REPLACED, message, warning=failed > 0)
        return
    for owner, fate in going:
        yield _replacement(owner, counts=fate is Fate.REPLACE_COUNTED, left=left)


def _replacement(owner: Owner, *, counts: bool, left: int) -> Event:
    message = f"pod {owner.name} is replaced: {why_it_goes(owner)}; {_budget(int(counts), left)}"
    return Event(EventReason.POD_REPLACED, message, warning=counts)


def _budget(failed: int, left: int) -> str:
    if not failed:
        return "it is not counted"
    return f"{failed} counted, {counted(left, 'more failed pod')} may be replaced (backoffLimit)"


def why_it_goes(owner: Owner) -> str:
    """In words, after the name of the pod."""
    if owner.standing is Standing.GONE or owner.pod is None:
        return "it was deleted"
    if owner.standing is Standing.TERMINATING:
        return "it is being deleted"
    if owner.standing is Standing.LIVE:
        return "it runs, but its agent is gone"
    return how_it_ended(owner.pod)
