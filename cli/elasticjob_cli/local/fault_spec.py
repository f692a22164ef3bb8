"""The grammar of `--inject`: a fault, its target and its time. `fault_injector` injects it.

    kill-worker[:rank=R][@WHEN]    SIGKILL to one worker
    kill-agent[:slot=S][@WHEN]     SIGKILL to a pod's agent, as if a node was lost
    term-agent[:slot=S][@WHEN]     SIGTERM to a pod's agent: the node leaves gracefully
    delete-pod[:slot=S][@WHEN]     as `kubectl delete pod`
    scale:N[@WHEN]                 as `kubectl scale --replicas=N`

WHEN is a share of the progress that the training reports (`50%`, the default). Or it is a number of seconds since all
workers of the first round were running (`5s`). R and S are 1 by default, or 0 where there is only one.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from elasticjob_api.job import ElasticJob, nproc_per_node
from elasticjob_cli.errors import InvalidFault

_SHARE = re.compile(r"(\d{1,3})%")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_WHOLE = 100


class FaultKind(StrEnum):
    """The kind of a fault."""

    KILL_WORKER = "kill-worker"
    KILL_AGENT = "kill-agent"
    TERM_AGENT = "term-agent"
    DELETE_POD = "delete-pod"
    SCALE = "scale"


_TARGETS = {FaultKind.KILL_WORKER: "rank=", FaultKind.SCALE: ""}
_SLOT = "slot="
_FORMS = "kill-worker[:rank=R], kill-agent[:slot=S], term-agent[:slot=S], delete-pod[:slot=S] or scale:N"


@dataclass(frozen=True, slots=True)
class AtShare:
    """The time when the training has reported this percentage of its work."""

    percent: int

    def __str__(self) -> str:
        """Return the text of `--inject`."""
        return f"{self.percent}%"


@dataclass(frozen=True, slots=True)
class AfterSeconds:
    """The time this many seconds after all workers of the first round were running."""

    seconds: float

    def __str__(self) -> str:
        """Return the text of `--inject`."""
        return f"{self.seconds:g}s"


When = AtShare | AfterSeconds


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, injected once."""

    kind: FaultKind
    target: int
    """Rank or slot; for a scale the number of nodes."""
    when: When

    def __str__(self) -> str:
        """Return the full text of `--inject`."""
        return f"{self.kind}:{_TARGETS.get(self.kind, _SLOT)}{self.target}@{self.when}"


def parse_fault(text: str, job: ElasticJob) -> Fault:
    """Return the fault of `text`; raise InvalidFault if it is malformed, or can never affect this job."""
    fault_text, _, when = text.partition("@")
    name, _, target = fault_text.partition(":")
    try:
        kind = FaultKind(name)
    except ValueError:
        raise InvalidFault(f"--inject {text}: {name!r} is not a fault; it must be {_FORMS}") from None
    fault = Fault(kind, _target(kind, target, job, text), _when(when, text))
    _check(fault, job, text)
    return fault


def _target(kind: FaultKind, given: str, job: ElasticJob, text: str) -> int:
    form = _TARGETS.get(kind, _SLOT)
    number = given.removeprefix(form)
    if number.isascii() and number.isdigit() and given.startswith(form):
        return int(number)
    if given:
        raise InvalidFault(f"--inject {text}: {given!r} is not {form}N, where N is a whole number")
    if kind is FaultKind.SCALE:
        raise InvalidFault(f"--inject {text}: the number of nodes is missing; write scale:N")
    return min(1, _count(kind, job) - 1)


def _when(given: str, text: str) -> When:
    if match := _SHARE.fullmatch(given or "50%"):
        if (percent := int(match[1])) <= _WHOLE:
            return AtShare(percent)
    elif match := _SECONDS.fullmatch(given):
        return AfterSeconds(float(match[1]))
    raise InvalidFault(f"--inject {text}: {given!r} is not a time; give a share of the progress (50%) or seconds (5s)")


def _count(kind: FaultKind, job: ElasticJob) -> int:
    """Return the largest number of ranks or slots that the job can have."""
    return job.spec.effective_max * (nproc_per_node(job.spec) if kind is FaultKind.KILL_WORKER else 1)


def _check(fault: Fault, job: ElasticJob, text: str) -> None:
    spec = job.spec
    if fault.kind is FaultKind.SCALE:
        if not spec.effective_min <= fault.target <= spec.effective_max:
            raise InvalidFault(
                f"--inject {text}: the job runs with {spec.effective_min} to {spec.effective_max} nodes"
                " (minReplicas, maxReplicas)"
            )
    elif fault.target >= (count := _count(fault.kind, job)):
        noun = "rank" if fault.kind is FaultKind.KILL_WORKER else "slot"
        raise InvalidFault(f"--inject {text}: the highest {noun} of the job is {count - 1}")
