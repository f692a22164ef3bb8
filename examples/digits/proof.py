"""The promises of the example, as pure functions from records to verdicts. No file, no socket, no clock.

There are two kinds of records, from two independent sources. The *lineage* in a checkpoint lists the steps that made
its parameters. The *attempts* from the journals list the steps that were executed. A round is one attempt to continue.
Both are checked to the end of training. No step is missing. A step was done twice only if it came after the newest
checkpoint when a worker died.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

TOLERANCE = 1e-6
ACCURACY = 0.9


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps `first` to `last`, done in one round, that went into the parameters."""

    round: int
    world_size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """The work of one round, as its nodes journaled it."""

    number: int
    """1 for the first; unlike `round` it never restarts when a job is created again on old files."""
    round: int
    world_size: int
    start: int
    """The step of the checkpoint that it continued from; 0 without one."""
    newest: int
    """The newest usable checkpoint that its nodes' journals had when it began."""
    runs: tuple[tuple[int, int], ...] = ()
    """The executed steps, as (first, last) of runs without a gap; one run, if no step is missing."""
    saved: int = 0
    """The newest checkpoint that it wrote; `start` if none."""

    @property
    def done(self) -> int:
        """Return the last step that it executed; `start` if none."""
        return max((last for _, last in self.runs), default=self.start)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise and the facts that contradict it."""

    claim: str
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"proof: {self.claim}: " + (f"FAILS: {'; '.join(self.problems)}" if self.problems else "holds")


def differing_ranks(hashes: Sequence[str | None]) -> str | None:
    """Return the groups of ranks whose hashes differ, as text; None if all that have one agree."""
    groups: dict[str, list[int]] = {}
    for rank, value in enumerate(hashes):
        if value is not None:
            groups.setdefault(value, []).append(rank)
    if len(groups) < 2:
        return None
    return ", ".join(f"{_ranks(ranks)} {value[:12]}" for value, ranks in groups.items())


def merge(reports: Iterable[Iterable[Attempt]]) -> tuple[Attempt, ...]:
    """Merge the nodes' views of the attempts, in order.

    A node that stopped earlier has a part of the longest view. A view with a gap or a repetition is never replaced by
    one without.
    """
    views: dict[int, Attempt] = {}
    for attempt in (attempt for report in reports for attempt in report):
        views[attempt.number] = max(attempt, views.get(attempt.number, attempt), key=_weight)
    return tuple(views[number] for number in sorted(views))


def lineage_problems(lineage: Sequence[Segment], *, total: int) -> list[str]:
    """Return the contradictions to the claim that these segments are the steps 1 to `total`, each once."""
    problems: list[str] = []
    expected = 1
    for segment in lineage:
        if segment.first != expected or segment.last < segment.first:
            problems.append(f"round {segment.round} contributed steps {_span(segment)} where {expected} was due")
        expected = segment.last + 1
    if expected != total + 1:
        problems.append(f"the lineage ends at step {expected - 1}, not at {total}")
    return problems


def attempt_problems(attempts: Sequence[Attempt], *, total: int, per_epoch: int) -> list[str]:
    """Return the contradictions to the claim that these attempts did every step, and repeated only necessary ones."""
    problems: list[str] = []
    reached = 0
    for due, attempt in enumerate(attempts, start=1):
        if attempt.number != due:
            return [*problems, f"attempt {due} is in no journal"]
        problems += [f"round {attempt.round} {problem}" for problem in _problems_of(attempt, reached, per_epoch)]
        reached = max(reached, attempt.done)
    if not attempts or attempts[-1].done != total:
        problems.append(f"the journals end at step {attempts[-1].done if attempts else 0}, not at {total}")
    return problems


def disagreements(lineage: Sequence[Segment], attempts: Sequence[Attempt]) -> list[str]:
    """Return the segments of the lineage that no journaled attempt accounts for."""
    return [
        f"no journal has steps {_span(segment)} of round {segment.round}"
        for segment in lineage
        if not any(_accounts_for(attempt, segment) for attempt in attempts)
    ]


def judge_hashes(lineage: Sequence[Segment], final: Sequence[str], *, per_epoch: int) -> Verdict:
    """Return the verdict that all ranks had the same parameters at each checkpoint.

    A checkpoint is written only after the hashes of all ranks were equal, so those in the lineage passed. `final` are
    the hashes in the end, in rank order.
    """
    counts = [segment.last // per_epoch - (segment.first - 1) // per_epoch for segment in lineage]
    parts = ", ".join(f"{count} on {part.world_size} ranks" for count, part in zip(counts, lineage, strict=True))
    difference = differing_ranks(final)
    claim = f"parameter hash {final[0][:12]} equal on all ranks at each of {sum(counts)} checkpoints ({parts})"
    return Verdict(claim, (difference,) if difference else ())


def judge_parameters(largest_difference: float) -> Verdict:
    """Return the verdict that the final parameters are those of one process without interruption."""
    claim = f"final parameters equal a 1-process run: max |Δ| {largest_difference:.1e}, allowed {TOLERANCE:.0e}"
    # Written so that NaN fails too.
    return Verdict(claim, () if largest_difference <= TOLERANCE else ("too far apart",))


def judge_steps(lineage: Sequence[Segment], attempts: Sequence[Attempt], *, total: int, per_epoch: int) -> Verdict:
    """Return the verdict that every step counted once, and only steps after the last checkpoint were repeated."""
    parts = ", ".join(f"{_span(part)} in round {part.round} ({part.world_size} workers)" for part in lineage)
    again = ", ".join(f"{b.start + 1}-{a.done}" for a, b in pairwise(attempts) if a.done > b.start)
    claim = f"steps 1-{total} without a gap: {parts}; repeated after a checkpoint: {again or 'none'}"
    problems = [
        *lineage_problems(lineage, total=total),
        *attempt_problems(attempts, total=total, per_epoch=per_epoch),
        *disagreements(lineage, attempts),
    ]
    return Verdict(claim, tuple(problems))


def judge_accuracy(accuracy: float) -> Verdict:
    """Return the verdict that the classifier has learned something."""
    return Verdict(f"test accuracy {accuracy:.3f}, at least {ACCURACY}", () if accuracy >= ACCURACY else ("too low",))


def _problems_of(attempt: Attempt, reached: int, per_epoch: int) -> Iterable[str]:
    if attempt.start > reached:
        yield f"went on from step {attempt.start}, but only {reached} were done before"
    if attempt.start < attempt.newest:
        yield f"went back to step {attempt.start}, though there was a checkpoint of step {attempt.newest}"
    if attempt.start % per_epoch:
        yield f"went on from step {attempt.start}, where no epoch ends"
    if attempt.done - attempt.saved > per_epoch:
        yield f"reached step {attempt.done} with no checkpoint after step {attempt.saved}"
    expected = attempt.start + 1
    for first, last in attempt.runs:
        if first != expected:
            yield f"did step {first} where {expected} was due"
        expected = last + 1


def _accounts_for(attempt: Attempt, segment: Segment) -> bool:
    same = (attempt.round, attempt.world_size, attempt.start + 1) == (segment.round, segment.world_size, segment.first)
    return same and attempt.done >= segment.last


def _weight(attempt: Attempt) -> tuple[bool, int, int]:
    return len(attempt.runs) > 1, attempt.done, attempt.saved


def _span(segment: Segment) -> str:
    return f"{segment.first}-{segment.last}"


def _ranks(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
