"""The rule that compares warm with cold rounds: what fails the comparison, and what is only reported.

torch may end a worker by SIGABRT when all its work is done, with and without a warm start: see docs/warm-start.md. So
such an end is a remark while it is rare, and no more frequent in warm rounds than in cold ones. Everything else that
differs from a good round fails.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import comb

GOOD_END = "exited with code 0"
OWN_END_OF_TORCH = "killed by SIGABRT: terminate called without an active exception"
OWN_ENDS: Mapping[str, Collection[str]] = dict.fromkeys(
    ("compiled", "dataloader", "ddp", "exit_race", "fsdp", "trainer"), (OWN_END_OF_TORCH,)
)
"""The bad ends that a program's framework is known to have itself."""
SIGNIFICANCE = 0.01
LARGEST_SHARE = 0.1
"""A greater share of bad ends is not the rare race that this rule allows. Of 112 cold rounds, 3 ended by it."""

Counts = Mapping[tuple[str, tuple[str, ...], tuple[str, ...]], int]
"""Rounds by their kind (`cold` or `warm`), the result of each rank, and the end of each rank."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The sentences of a comparison."""

    failures: tuple[str, ...]
    remarks: tuple[str, ...]


def judge(counts: Counts, own_ends: Collection[str] = ()) -> Verdict:
    """Return the verdict on these rounds.

    Args:
        counts: how many rounds there were.
        own_ends: bad ends that the framework itself is known to have, without a warm start.
    """
    bad = {kind: _bad_ends(counts, kind) for kind in ("cold", "warm")}
    failures = [
        *_different_results(counts),
        *_foreign_ends(bad, own_ends),
        *(f"warm rounds alone ended with: {end}" for end in bad["warm"] if end not in bad["cold"]),
        *_too_many(counts),
    ]
    remarks = [
        f"{number} {kind} rounds ended with: {end}"
        for kind, ends in bad.items()
        for end, number in ends.items()
        if end in own_ends
    ]
    return Verdict(tuple(failures), tuple(remarks))


def _different_results(counts: Counts) -> list[str]:
    results = {lines for _, lines, _ in counts if all(lines)}
    found = [f"{len(results)} different results"] if len(results) > 1 else []
    missing: Counter[str] = Counter()
    for (kind, lines, _), number in counts.items():
        missing[kind] += number * (not all(lines))
    return [
        *found,
        *(f"{number} {kind} rounds have no result of every rank" for kind, number in missing.items() if number),
    ]


def _bad_ends(counts: Counts, kind: str) -> Counter[str]:
    """Return the number of rounds of this kind with each bad end."""
    found: Counter[str] = Counter()
    for (each, _, ends), number in counts.items():
        found.update({end: number for end in set(ends) - {GOOD_END} if each == kind})
    return found


def _foreign_ends(bad: Mapping[str, Counter[str]], own_ends: Collection[str]) -> list[str]:
    return [
        f"{number} {kind} rounds ended with: {end}"
        for kind, ends in bad.items()
        for end, number in ends.items()
        if end not in own_ends
    ]


def _too_many(counts: Counts) -> list[str]:
    """Return a sentence for each kind that ends badly too often, and one if warm rounds do so more often than cold."""
    bad: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for (kind, _, ends), number in counts.items():
        total[kind] += number
        bad[kind] += number * (set(ends) != {GOOD_END})
    found = [
        f"{bad[kind]} of {total[kind]} {kind} rounds ended badly, which is too many"
        for kind in total
        if binomial_tail(bad[kind], total[kind], LARGEST_SHARE) <= SIGNIFICANCE
    ]
    if fisher_tail(bad["warm"], total["warm"], bad["cold"], total["cold"]) <= SIGNIFICANCE:
        found.append(
            f"{bad['warm']} of {total['warm']} warm rounds ended badly, but {bad['cold']} of {total['cold']} cold"
        )
    return found


def binomial_tail(found: int, of: int, share: float) -> float:
    """Return the probability of so many or more, if each round ends badly with this probability."""
    return sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(found, of + 1))


def fisher_tail(found: int, of: int, other: int, of_other: int) -> float:
    """Return the probability of so many or more of the first kind, if both kinds end badly equally often (Fisher)."""
    all_found = found + other
    ways = comb(of + of_other, all_found)
    return sum(comb(of, k) * comb(of_other, all_found - k) for k in range(found, min(of, all_found) + 1)) / ways
