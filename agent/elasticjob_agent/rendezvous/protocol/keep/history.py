"""The history of the training, as a round closes and as a step cannot be restored.

`History.with_lineage` adds the lineage of an active round when the next round opens. The rules here only take away: a
step that left the history never returns to it, whatever node brings it back.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from elasticjob_api.kept_steps import History, HistoryEntry, KeptStep, Lineage, PersistedStep

HISTORY_ENTRIES, OLDER_ENTRIES = 8, 32
"""The most entries that the leader writes, also of `older`. The newest ones remain."""


def strike_step(history: History, step: KeptStep) -> History:
    """Return the history without this step, which could not be restored, and without later ones of its lineage."""
    return History(tuple(kept for entry in history.entries if (kept := _below(entry, step)) is not None))


def _below(entry: HistoryEntry, step: KeptStep) -> HistoryEntry | None:
    if entry.lineage != step.lineage or (entry.highest is not None and entry.highest < step.number):
        return entry
    return replace(entry, highest=step.number - 1) if step.number else None


def close_history(
    history: History, restored: KeptStep | None, needed: Collection[Lineage], on_disk: Collection[Lineage] = ()
) -> History:
    """Return the history of an active round that restores this step; it is empty without one.

    Behind the restored step, only entries of `needed` lineages remain, and those `on_disk` in front of one of them.
    """
    if restored is None:
        return History()
    lineages = [entry.lineage for entry in history.entries]
    older = history.entries[lineages.index(restored.lineage) + 1 :] if restored.lineage in lineages else ()
    # The word `older` is behind all of these. So a newer lineage that is on disk may not be left to it.
    last = max((index for index, entry in enumerate(older) if entry.lineage in needed), default=-1)
    kept = [entry for entry in older[: last + 1] if entry.lineage in needed or entry.lineage in on_disk]
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
        for step in steps:  # one with a higher number is of a training that the earlier run has not restored
            found[step.lineage] = min(max(step.number, found.get(step.lineage, 0)), restored.number)
        return History(tuple(HistoryEntry(*entry) for entry in list(found.items())[:OLDER_ENTRIES]))
    lineages = [entry.lineage for entry in line.entries]
    behind = line.entries[lineages.index(restored.lineage) + 1 :] if restored.lineage in lineages else ()
    there = {step.lineage for step in steps if line.is_alive(step)}
    return History(tuple(entry for entry in behind if entry.lineage in there)[:OLDER_ENTRIES])
