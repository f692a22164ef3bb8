"""The history of the training, as a round closes and as a step cannot be restored.

`History.with_lineage` adds the lineage of an active round when the next round opens. The rules here only take away: a
step that left the history never returns to it, whatever node brings it back.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from elasticjob_api.kept_steps import History, HistoryEntry, KeptStep, Lineage, PersistedStep

HISTORY_ENTRIES = 8
"""The most entries that the leader writes. The newest ones remain."""


def strike_step(history: History, step: KeptStep) -> History:
    """Return the history without this step, which could not be restored, and without later ones of its lineage."""
    return History(tuple(kept for entry in history.entries if (kept := _below(entry, step)) is not None))


def _below(entry: HistoryEntry, step: KeptStep) -> HistoryEntry | None:
    if entry.lineage != step.lineage or (entry.highest is not None and entry.highest < step.number):
        return entry
    return replace(entry, highest=step.number - 1) if step.number else None


def close_history(history: History, restored: KeptStep | None, needed: Collection[Lineage]) -> History:
    """Return the history of an active round that restores this step; it is empty without one.

    Behind the restored step, only entries of `needed` lineages remain.
    """
    if restored is None:
        return History()
    lineages = [entry.lineage for entry in history.entries]
    older = history.entries[lineages.index(restored.lineage) + 1 :] if restored.lineage in lineages else ()
    kept = [entry for entry in older if entry.lineage in needed]
    newest = HistoryEntry(restored.lineage, restored.number)
    return History((newest, *kept[: HISTORY_ENTRIES - 1]))


def close_older(
    line: History, restored: KeptStep | None, closed: History, persisted: Iterable[PersistedStep]
) -> History:
    """Return the older steps that count in the shared directory only, for an active round that restores this step.

    `line` has all steps that the training descends from, in memory and on disk, and `closed` those of the round that
    count in memory, too. `persisted` are on disk, newest first. Lineages without such a step are left out.
    """
    if restored is None:
        return History()
    steps = [each.step for each in persisted if each.step.lineage not in {entry.lineage for entry in closed.entries}]
    if not line.entries:  # a new run descends from whatever was there before the step that it restores
        found: dict[Lineage, int] = {}
        for step in steps:
            found[step.lineage] = max(step.number, found.get(step.lineage, 0))
        return History(tuple(HistoryEntry(*entry) for entry in list(found.items())[:HISTORY_ENTRIES]))
    lineages = [entry.lineage for entry in line.entries]
    behind = line.entries[lineages.index(restored.lineage) + 1 :] if restored.lineage in lineages else ()
    there = {step.lineage for step in steps if line.is_alive(step)}
    return History(tuple(entry for entry in behind if entry.lineage in there)[:HISTORY_ENTRIES])
