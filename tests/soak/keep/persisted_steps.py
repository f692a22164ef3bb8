"""G11 of every journal: no round begins below the newest step of the shared directory. Pure.

A step that becomes whole in the last moment before a loss may be known to no node that lives on. So a round is checked
only if some node of it has listed the directory since the round before ended.
"""

from collections.abc import Collection, Iterator

from elasticjob_api.kept_steps import History, KeptStep
from tests.soak.keep.events import Event, Journal

_LATE_S = 3.0
"""How much later than it was written a state may be read."""
_ENDS = {"node is lost", "agent restarts"}
"""The faults that end an agent: the next one at its place lists the directory anew."""


def find_rounds_below_disk(journal: Journal) -> Iterator[str]:
    """Yield a sentence for each active state that gives up a step of the shared directory."""
    last: Event | None = None
    """The active state before."""
    formed: list[Event] = []
    for state in journal.states:
        if state["phase"] == "forming":
            formed.append(state)
        elif state["phase"] == "active":
            if last is not None and formed and formed[-1]["round"] == state["round"] and _is_sure(journal, last, state):
                yield from _given_up(journal, formed, state)
            last, formed = state, []


def find_missing_at_end(journal: Journal, on_disk: Collection[KeptStep]) -> Iterator[str]:
    """Yield a sentence if a job that has ended left its newest committed step in memory only."""
    round_ = max((report["lineage_round"] for report in journal.reports), default=0)
    committed = max((each["step"] for each in journal.reports if each["lineage_round"] == round_), default=0)
    newest = max((step.number for step in on_disk if step.lineage.round >= round_), default=0)
    if newest < committed:
        yield f"all nodes have ended, and step {committed} of round {round_} is not on disk; the newest is {newest}"


def restores_from_disk(journal: Journal) -> int:
    """Return in how many rounds workers restored a step of the shared directory."""
    return sum(each.is_from_disk for each in journal.rounds.values())


def _is_sure(journal: Journal, last: Event, state: Event) -> bool:
    """Return whether a node that has listed the directory since `last` had to be asked which step is restored."""
    ended = {each["node"] for each in journal.faults if each["kind"] in _ENDS and last["t"] < each["t"] <= state["t"]}
    followed = set(last["nodes"]) - ended
    if not followed:
        return True
    # A step that all members have in memory is restored without waiting for a list.
    is_from_memory = state["restore"] and not state["is_from_disk"]
    return not is_from_memory and bool(set(state["nodes"]) - followed - {""})


def _given_up(journal: Journal, formed: list[Event], state: Event) -> Iterator[str]:
    until = formed[0]["t"] - _LATE_S
    on_disk = [step for step, t in journal.whole.items() if t <= until]
    history, kept = History.parse(formed[-1]["history"]), History.parse(state["next_history"])
    alive = sorted((step for step in journal.whole if history.is_alive(step)), key=lambda step: _age(history, step))
    newest = max((step for step in alive if step in on_disk), key=alive.index, default=None)
    title = f"G11: round {state['round']}.{state['nonce']}"
    if not state["restore"]:
        if on_disk:
            yield f"{title} begins with nothing, and {max(on_disk)} was whole on disk"
        return
    restored = KeptStep.parse(state["restore"])
    if newest is None or not history.is_alive(restored):
        return
    if _age(history, restored) < _age(history, newest):
        yield f"{title} restores {restored}, and {newest} was whole on disk"
    elif not any(kept.is_alive(step) for step in alive[alive.index(newest) :]):  # a newer one may be known as well
        yield f"{title} restores {restored}, and gives {newest} up, which was whole on disk"


def _age(history: History, step: KeptStep) -> tuple[int, int]:
    """Return a key that is higher for newer steps."""
    lineages = [entry.lineage for entry in history.entries]
    return -lineages.index(step.lineage), step.number
