"""Count the steps that were lost over soaks: how many whole published steps each round did not restore, by its cause.

    python -m tests.soak.keep.histogram FOLDER…

A FOLDER is that of one soak. Hours are those of training under faults.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.soak.keep.events import Journal, read_journal
from tests.soak.keep.invariants import RoundChange, changes
from tests.soak.keep.persisted_steps import restores_from_disk

_CLASSES = (
    ("several nodes lost", lambda change: change.losses > 1),
    ("a node lost, cut off, or its agent restarted", lambda change: change.losses == 1),
    ("etcd away or wiped", lambda change: any(each["node"] == "etcd" for each in change.faults)),
    ("a keeper killed", lambda change: any(each["kind"] == "keeper dies" for each in change.faults)),
    ("a node left or joined", lambda change: any(each["kind"].startswith("node ") for each in change.faults)),
    ("a worker killed", lambda change: any("die" in each["kind"] for each in change.faults)),
    ("other", lambda _: True),
)
"""The first class that is true of a change counts."""
_BUCKETS = (0, 1, 2, 3, 5, 10, 20)


def lost_steps(journal: Journal) -> dict[str, Counter[int]]:
    """Return class of the cause → how often so many whole steps were lost."""
    found = defaultdict[str, Counter[int]](Counter)
    for change in changes(journal):
        found[_class_of(change)][max(0, change.lost_steps())] += 1
    return dict(found)


def hours(journal: Journal) -> float:
    """Return the hours from the first event of a worker to the last."""
    first = min((each.began for each in journal.rounds.values()), default=journal.newest_t)
    return (journal.newest_t - first) / 3600


def report(folders: list[Path]) -> str:
    """Return hours, rounds, faults and two histograms of these soaks: ranks that publish together, and others."""
    jobs = [path for folder in folders for path in sorted(folder.glob("job-*"))]
    journals = {path: read_journal(path / "journal") for path in jobs}
    together = {path for path in jobs if not json.loads((path / "settings.json").read_text())["lag_s"]}
    faults = sum(len(journal.faults) for journal in journals.values())
    rounds = sum(len(journal.rounds) for journal in journals.values())
    title = f"{sum(map(hours, journals.values())):.2f} hours, {len(jobs)} jobs, {rounds} rounds, {faults} faults."
    parts = [title, _of_directories([journals[path] for path in jobs if (path / "shared").exists()])]
    for heading, own in (("Ranks publish together:", together), ("From threads, late:", set(jobs) - together)):
        parts += [heading, "\n".join(_table([journals[path] for path in own]))]
    return "\n\n".join(parts)


def _of_directories(journals: list[Journal]) -> str:
    whole, restores = sum(len(each.whole) for each in journals), sum(map(restores_from_disk, journals))
    return f"{len(journals)} jobs had a shared directory: {whole} steps whole on disk, {restores} rounds restored one."


def _table(journals: list[Journal]) -> list[str]:
    total = defaultdict[str, Counter[int]](Counter)
    for journal in journals:
        for name, counts in lost_steps(journal).items():
            total[name] += counts
    heads = [_bucket_name(index) for index in range(len(_BUCKETS))]
    rows = [[name, str(total[name].total()), *_buckets(total[name])] for name, _ in _CLASSES if name in total]
    lines = [["since the round before", "rounds", *heads], ["---"] * (2 + len(heads)), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _class_of(change: RoundChange) -> str:
    return next(name for name, is_one in _CLASSES if is_one(change))


def _buckets(counts: Counter[int]) -> list[str]:
    found = Counter(max(index for index, least in enumerate(_BUCKETS) if lost >= least) for lost in counts.elements())
    return [str(found[index]) for index in range(len(_BUCKETS))]


def _bucket_name(index: int) -> str:
    least, after = _BUCKETS[index], _BUCKETS[index + 1] if index + 1 < len(_BUCKETS) else None
    if after is None:
        return f"{least} or more"
    return f"{least} lost" if after == least + 1 else f"{least} to {after - 1}"


if __name__ == "__main__":
    print(report([Path(word) for word in sys.argv[1:]]))
