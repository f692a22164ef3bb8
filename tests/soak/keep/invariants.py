"""The invariants of every journal, after any faults. Pure; G1 to G9 and G11 are in docs/architecture/keep.md.

A check that cannot be sure, because a loss may explain what it sees, finds nothing. A *loss* is a fault that takes a
node's memory out of reach for a moment or for good.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from elasticjob_api.kept_steps import KeptStep, Lineage
from tests.soak.keep.events import Event, Journal, Round, restored_step
from tests.soak.keep.persisted_steps import find_rounds_below_disk

_UNDETECTED_S = 8.0
"""How long a loss may stay unnoticed: the lease of an agent has 6 s."""
_LATE_S = 3.0
"""How much later than its commit a report may be read."""

Line = dict[Lineage, int | None]
"""The steps that a training descends from: lineage → highest step, None for all."""


@dataclass(frozen=True, slots=True)
class RoundChange:
    """One round after another one in which workers ran."""

    before: Round
    after: Round
    line: Line
    """The steps that `after` may restore."""
    faults: tuple[Event, ...]
    """The faults since the workers of `before` started."""
    losses: int
    """The nodes that were lost meanwhile."""

    def lost_steps(self) -> int:
        """Return how many whole published steps were done in vain."""
        newest = self.newest_whole
        restored = self.after.restored
        return (0 if newest is None else newest.number) - (0 if restored is None else restored.number)

    @property
    def newest_whole(self) -> KeptStep | None:
        """The newest step of which all workers had published their parts."""
        return _newest(self.line, self.before)


def find_violations(journal: Journal, copies: int) -> list[str]:
    """Return a sentence for each broken invariant."""
    found = [*journal.violations]
    for each in journal.in_order():
        found += _one_step_for_all(journal, each)
        found += _as_published(journal, each)
    for change in changes(journal):
        found += _descends(change)
        found += _nothing_lost_without_a_loss(change)
        found += _committed_is_kept(journal, change, copies)
    return [*found, *_failed_restores(journal), *find_rounds_below_disk(journal)]


def changes(journal: Journal) -> Iterator[RoundChange]:
    """Yield each pair of rounds that follow each other."""
    rounds = journal.in_order()
    lines: dict[int, Line] = {}
    for before, after in itertools.pairwise(rounds):
        mine = _cut({before.lineage: None, **lines.get(before.lineage.round, {})}, before)
        # Two active states of one round are possible after a wipe: a step of either may be restored.
        lines[after.lineage.round] = lines.get(after.lineage.round, {}) | mine
        line = lines[after.lineage.round]
        faults = tuple(each for each in journal.faults if before.began - _UNDETECTED_S < each["t"] <= after.began)
        yield RoundChange(before, after, line, faults, losses_between(journal, before.began, after.began))


def losses_between(journal: Journal, since: float, until: float) -> int:
    """Return how many nodes were lost, by the faults or by the members that are missing without having left."""
    begins = [each for each in journal.faults if since - _UNDETECTED_S < each["t"] <= until]
    injected = {each["node"] for each in begins if each["loss"]}
    left = {each["node"] for each in begins if each["kind"] == "node leaves"}
    missing = _missing_members(journal, since, until) - len(left)
    return max(len(injected), missing)


def _fewest_members(journal: Journal, since: float, until: float) -> int:
    """Return how many members the smallest round in that time had: a step has no more holders there."""
    active = [each for each in journal.states if each["phase"] == "active" and each["t"] < until]
    first = max((each["t"] for each in active if each["t"] <= since), default=0.0)
    return min((len(each["members"]) for each in active if each["t"] >= first), default=1)


def _missing_members(journal: Journal, since: float, until: float) -> int:
    """Return how many sessions of the rounds in that time are in no later one."""
    active = [each for each in journal.states if each["phase"] == "active" and each["t"] <= until + _LATE_S]
    first = max((each["t"] for each in active if each["t"] <= since), default=0.0)
    seen = [set(each["members"]) for each in active if each["t"] >= first]
    return len(set[str]().union(*seen) - seen[-1]) if seen else 0


# --- G1, G2, G3 ------------------------------------------------------------------------------------------------


def _one_step_for_all(journal: Journal, each: Round) -> Iterator[str]:
    """G3: all workers of a round restore the same step, or none of them does."""
    events = (*each.running, *_without_keeper(journal, each))
    found = {(str(restored_step(event) or ""), event["state"]) for event in events}
    if len(found) > 1:
        yield f"G3: the workers of round {each.lineage} restored different steps: {sorted(found)}"


def _as_published(journal: Journal, each: Round) -> Iterator[str]:
    """G1, G2: each restored step has the state with which all of its parts were published, in its own lineage."""
    step = each.restored
    if step is None:
        return
    known = journal.rounds.get(step.lineage)
    published = known.steps.get(step) if known else None
    state = each.running[0]["state"]
    if published is None:
        yield f"G2: round {each.lineage} restored {step}, which no worker has published"
    elif published.states != {state}:
        yield f"G1: round {each.lineage} restored {step} with state {state}, published were {sorted(published.states)}"
    elif published.begun | published.done != set(range(step.parts)):
        yield f"G2: round {each.lineage} restored {step}, of which only {sorted(published.begun)} were published"


# --- G4, G5, G6, G8 --------------------------------------------------------------------------------------------


def _descends(change: RoundChange) -> Iterator[str]:
    """G6: a restored step is one that the training descends from."""
    step = change.after.restored
    if step is not None and not _is_on(change.line, step):
        line = ", ".join(f"{lineage} up to {highest}" for lineage, highest in change.line.items())
        yield f"G6: round {change.after.lineage} restored {step}; it descends from {line}"


def _nothing_lost_without_a_loss(change: RoundChange) -> Iterator[str]:
    """G4: if all nodes live and their newest own step is the same, that is restored."""
    is_quiet = all(each["kind"] in {"worker dies", "two workers die"} for each in change.faults)
    if not is_quiet or change.losses or not change.before.running:
        return
    newest, ranks = set(change.before.newest.values()), set(range(change.before.running[0]["world"]))
    if {event["rank"] for event in change.before.running} == ranks == change.before.newest.keys() and len(newest) == 1:
        ((number, is_done),) = newest
        restored = change.after.restored
        if is_done and (restored is None or (restored.lineage, restored.number) != (change.before.lineage, number)):
            yield f"G4: all published {number} in round {change.before.lineage}, {change.after.lineage} got {restored}"


def _committed_is_kept(journal: Journal, change: RoundChange, copies: int) -> Iterator[str]:
    """G5: a committed step, or a newer one, is restored after as many losses as there are copies."""
    began, restored = change.after.began, change.after.restored
    for report in journal.reports:
        step = _committed(journal, report)
        if step is None or report["t"] > began or not _is_on(change.line, step):
            continue
        if restored is not None and (restored.lineage, restored.number) >= (step.lineage, step.number):
            continue
        since = _start_of_round_at(journal, report["t"] - _LATE_S)
        losses = losses_between(journal, since, began)
        if losses <= min(copies, _fewest_members(journal, since, began) - 1):
            yield (
                f"G5: {report['address']} reported step {step.number} of round {step.lineage.round} as committed; "
                f"round {change.after.lineage} restored {restored} after {losses} losses, with {copies} copies"
            )


def _failed_restores(journal: Journal) -> Iterator[str]:
    """G8: a fetch fails only after a loss."""
    for state in journal.states:
        if state["phase"] == "forming" and state["cause"] == "RestoreFailed":
            since = _start_of_round_at(journal, state["t"] - _UNDETECTED_S)
            if not losses_between(journal, since, state["t"]):
                yield f"G8: round {state['round']} opened, since a restore failed, without any loss"


def _without_keeper(journal: Journal, each: Round) -> list[Event]:
    """Return the workers of that round on nodes that kept nothing, unless another active state had its number."""
    if sum(known.lineage.round == each.lineage.round for known in journal.rounds.values()) > 1:
        return []
    return [event for event in journal.without_keeper if event["round"] == each.lineage.round and "state" in event]


# --- helpers ---------------------------------------------------------------------------------------------------


def _committed(journal: Journal, report: Event) -> KeptStep | None:
    """Return the step that a report names as committed; None if it names none, or if two lineages have that round."""
    found = [
        step
        for each in journal.rounds.values()
        if each.lineage.round == report["lineage_round"]
        for step in each.steps
        if step.number == report["step"]
    ]
    return found[0] if len(found) == 1 else None


def _start_of_round_at(journal: Journal, t: float) -> float:
    return max((each.began for each in journal.rounds.values() if each.began <= t), default=0.0)


def _cut(line: Line, each: Round) -> Line:
    """Return the line of the round after `each`: what lies in front of its restored step is given up."""
    step, cut = each.restored, Line()
    for lineage, highest in line.items():
        if lineage == each.lineage:
            cut[lineage] = None
        elif step is not None and lineage == step.lineage:
            cut[lineage] = step.number
        elif step is not None and lineage < step.lineage:
            cut[lineage] = highest
    return cut


def _is_on(line: Line, step: KeptStep) -> bool:
    highest = line.get(step.lineage, -1)
    return highest is None or step.number <= highest


def _newest(line: Line, before: Round) -> KeptStep | None:
    """Return the newest whole step of the round before, else the step that it restored."""
    whole = [step for step in before.whole_steps() if _is_on(line, step)]
    return max(whole, default=before.restored)
