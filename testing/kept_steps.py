"""Hypothesis strategies for the names of kept steps, and for holdings."""

from hypothesis import strategies as st

from elasticjob_api.holdings import MAX_OLDER, MAX_STEPS, HoldingsRecord
from elasticjob_api.kept_steps import (
    PART_LIMIT,
    ROUND_LIMIT,
    STEP_NUMBER_LIMIT,
    History,
    HistoryEntry,
    KeptStep,
    Lineage,
    PersistedStep,
)

_NONCE = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"

numbers = st.integers(0, 3) | st.integers(0, STEP_NUMBER_LIMIT - 1)
lineages = st.builds(
    Lineage,
    st.integers(0, 9) | st.integers(0, ROUND_LIMIT - 1),
    st.text(_NONCE, min_size=1, max_size=64),
)
kept_steps = st.builds(KeptStep, lineages, numbers, st.integers(1, 9) | st.integers(1, PART_LIMIT))
histories = st.builds(
    lambda entries: History(tuple(entries)),
    st.lists(st.builds(HistoryEntry, lineages, st.none() | numbers), max_size=9, unique_by=lambda entry: entry.lineage),
)
persisted_steps = st.builds(PersistedStep, st.text(_NONCE, min_size=1, max_size=64), kept_steps)


def _index_sets(step: KeptStep) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(0, min(step.parts, 40) - 1) | st.integers(0, step.parts - 1), min_size=1)


holdings = st.lists(kept_steps, max_size=MAX_STEPS, unique=True).flatmap(
    lambda steps: st.fixed_dictionaries({step: _index_sets(step) for step in steps})
)
holdings_records = st.builds(
    HoldingsRecord,
    port=st.integers(1, 65_535),
    steps=holdings,
    persisted=st.none() | persisted_steps,
    older=st.lists(persisted_steps, max_size=MAX_OLDER).map(tuple),
)
