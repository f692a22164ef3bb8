"""Which step all members of a round restore, from the holdings of the live nodes: the newest that is whole.

The barrier has been passed, so the holdings are exact: nodes drop nothing between `ready` and the active state. Nodes
that leave count as holders, because they stay until their parts are fetched.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from elasticjob_agent.rendezvous.protocol.keep.history import close_history, close_older
from elasticjob_agent.rendezvous.protocol.keep.holders import is_safe, is_whole
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member


@dataclass(frozen=True, slots=True)
class RestoreDecision:
    """The step that the members of a round restore, and the history that the round begins with."""

    step: KeptStep | None = None
    run: str = ""
    """The run that wrote the step into the shared directory, if it is read from there; else empty."""
    history: History = field(default_factory=History)
    older: History = field(default_factory=History)
    """Older steps that count in the shared directory only."""


def choose_restore(
    history: History,
    records: Mapping[Member, HoldingsRecord],
    hosts: Mapping[Member, str],
    *,
    copies: int,
    older: History | None = None,
) -> RestoreDecision:
    """Return the newest step that is whole: in memory, or else in the shared directory.

    `history` is that of the forming round, and `older` has the steps behind it that count in the shared directory only.
    If both are empty, the run has never restored or written a step. Only then steps of other runs count. `hosts` names
    the host of each live node.
    """
    holdings = {member: record.steps for member, record in records.items()}
    line = history.followed_by(older or History())
    newest_ones = _eligible(line, {record.persisted for record in records.values() if record.persisted is not None})
    further = _eligible(line, (each for record in records.values() for each in record.older))
    if not line.entries:
        newest_ones, further = _without_older(newest_ones, further), []
    in_memory = _newest_whole(history, holdings.values())
    newest = max((*newest_ones, *further), key=lambda each: _age_order(line, each.step), default=None)
    if newest is not None and in_memory is not None and not _is_newer(line, newest.step, in_memory):
        newest = None
    step = in_memory if newest is None else newest.step
    known = {entry.lineage for entry in history.entries}
    persisted = {each.step.lineage for each in newest_ones if each.step.lineage in known}
    needed = persisted | _needed_lineages(history, step, holdings, hosts, copies)
    on_disk = _on_disk(records, newest)
    closed = close_history(line, step, needed, {each.step.lineage for each in on_disk if line.is_alive(each.step)})
    behind = close_older(line, step, closed, on_disk)
    return RestoreDecision(step, "" if newest is None else newest.run, closed, behind)


def _on_disk(records: Mapping[Member, HoldingsRecord], newest: PersistedStep | None) -> list[PersistedStep]:
    """Return the persisted steps that the nodes have found, newest first.

    A new run cannot compare steps of other runs. So the order is that of the first node with the step that it restores.
    """
    nodes = sorted(records, key=lambda member: (records[member].persisted != newest, member))
    found = ((records[node].persisted, *records[node].older) for node in nodes)
    return list(dict.fromkeys(each for steps in found for each in steps if each is not None))


def _needed_lineages(
    history: History,
    restored: KeptStep | None,
    holdings: Mapping[Member, Holdings],
    hosts: Mapping[Member, str],
    copies: int,
) -> set[Lineage]:
    """Return the lineages of the steps that members fall back to if the restored one is lost.

    Nothing older than a safe step is needed. Without this rule, each round that ends before its first commit would
    leave one more step in memory.
    """
    needed: set[Lineage] = set()
    for step in _newest_first(history, holdings.values()):
        if restored is None or not _is_newer(history, restored, step):
            continue
        needed.add(step.lineage)
        if is_safe(step, holdings, hosts, copies):
            break
    return needed


def _eligible(history: History, persisted: Iterable[PersistedStep]) -> list[PersistedStep]:
    is_new_run = not history.entries
    # Sorted, so that every leader decides alike.
    return sorted((each for each in persisted if is_new_run or history.is_alive(each.step)), key=str)


def _without_older(newest_ones: list[PersistedStep], older: list[PersistedStep]) -> list[PersistedStep]:
    """Return the newest persisted steps of the nodes, without those that another node knows to be older than its own.

    The numbers of several runs cannot be compared, and a node may have an old list.
    """
    known = {each.step.lineage for each in older}
    return [each for each in newest_ones if each.step.lineage not in known] or newest_ones


def _newest_whole(history: History, holdings: Collection[Holdings]) -> KeptStep | None:
    return next((step for step in _newest_first(history, holdings) if is_whole(step, holdings)), None)


def _newest_first(history: History, holdings: Iterable[Holdings]) -> list[KeptStep]:
    alive = {step for each in holdings for step in each if history.is_alive(step)}
    return sorted(alive, key=lambda step: _age_order(history, step), reverse=True)


def _is_newer(history: History, step: KeptStep, other: KeptStep) -> bool:
    return _age_order(history, step) > _age_order(history, other)


def _age_order(history: History, step: KeptStep) -> tuple[int, int, KeptStep]:
    """Return a key that is higher for newer steps. Rounds of different runs cannot be compared, entries can."""
    lineages = [entry.lineage for entry in history.entries]
    return -lineages.index(step.lineage) if step.lineage in lineages else 0, step.number, step
