"""First designs of Keep, each wrong in one rule. They exist to be caught by the guarantees."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint, decide_safe_point
from elasticjob_agent.keep.rules.replication import OfferAnswer, answer_offer
from elasticjob_agent.keep.rules.retention import KeeperRound, superseded
from elasticjob_agent.rendezvous.protocol.keep.holders import is_whole
from elasticjob_agent.rendezvous.protocol.keep.restore_choice import RestoreDecision, choose_restore
from elasticjob_agent.rendezvous.protocol.keep.state_words import awaited_lists
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, HistoryEntry, Holdings, KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member, RendezvousState
from tests.unit.agent.keep.sim.rules import Records, Rules


def keep_the_dead(held: Holdings, _history: History, _active: Lineage | None) -> Holdings:
    """Return all holdings, also those that the training does not descend from."""
    return held


def choose_by_number(
    _history: History, records: Records, _hosts: Mapping[Member, str], *, copies: int, older: History
) -> RestoreDecision:
    """Choose the highest number of which each part is held, whatever round wrote it."""
    del copies, older
    steps = {step for record in records.values() for step in record.steps}
    for newest in sorted(steps, key=lambda step: (step.number, step.lineage), reverse=True):
        alike = {step for step in steps if (step.number, step.parts) == (newest.number, newest.parts)}
        merged = {
            newest: frozenset(
                part for record in records.values() for step in alike for part in record.steps.get(step, ())
            )
        }
        if is_whole(newest, [merged]):
            return RestoreDecision(newest, history=History((HistoryEntry(newest.lineage, newest.number),)))
    return RestoreDecision()


def choose_without_history(
    history: History, records: Records, hosts: Mapping[Member, str], *, copies: int, older: History
) -> RestoreDecision:
    """Choose the newest whole step, alive or not."""
    del older
    lineages = {step.lineage for record in records.values() for step in record.steps}
    everything = History(tuple(HistoryEntry(lineage, None) for lineage in sorted(lineages, reverse=True)))
    return choose_restore(everything if lineages else history, records, hosts, copies=copies)


def keep_the_two_newest(known: KeeperRound, own: Iterable[KeptStep], _counted: object = ()) -> list[KeptStep]:
    """Drop all own steps of the round but the two newest."""
    return sorted(filter(known.is_of_round, own))[:-2]


def commit_nothing(lineage: Lineage, *_: object, **__: object) -> SafePoint:
    """Answer nothing."""
    return SafePoint(lineage)


def answer_without_floor(*arguments: Any, **options: Any) -> SafePoint:
    """Answer the committed step only."""
    return replace(decide_safe_point(*arguments, **options), floor=None)


def forget_commits(
    lineage: Lineage, announcements: Mapping[Member, Announcement], hosts: Mapping[Member, str], *, copies: int
) -> SafePoint:
    """Commit what is copied, and forget what the members know to be committed."""
    without = {member: replace(each, committed=None) for member, each in announcements.items()}
    return decide_safe_point(lineage, without, hosts, copies=copies)


def commit_when_published(
    lineage: Lineage, announcements: Mapping[Member, Announcement], hosts: Mapping[Member, str], *, copies: int
) -> SafePoint:
    """Commit a step when all members have published their parts, before they are copied."""
    del copies
    return decide_safe_point(lineage, announcements, hosts, copies=0)


def count_former_members(records: Records, previous: frozenset[Member]) -> Mapping[Member, HoldingsRecord]:
    """Return the records of members of the last round; the others are idle."""
    return {member: record for member, record in records.items() if member in previous}


def supersede_all_between(known: KeeperRound, own: Iterable[KeptStep], _counted: object = ()) -> list[KeptStep]:
    """Drop all between the oldest and the newest, announced or not."""
    return superseded(known, own)


def announce_everything(_known: KeeperRound, _own: Holdings, held: Holdings) -> Holdings:
    """Return all holdings, also those that may be superseded before the leader counts them."""
    return held


def take_skipped_parts(
    known: KeeperRound | None, history: History, sender: Lineage, step: KeptStep, index: int, **options: Any
) -> OfferAnswer:
    """Answer as if the receiver had published nothing newer."""
    own = {each: parts for each, parts in options["own"].items() if each <= step}
    return answer_offer(known, history, sender, step, index, **{**options, "own": own})


def never_strike(history: History, _step: KeptStep) -> History:
    """Return the history as it is."""
    return history


@dataclass(frozen=True, slots=True)
class RoundOfAllSteps(KeeperRound):
    """A round in which each step counts, also one older than the restored step."""

    def is_of_round(self, step: KeptStep) -> bool:
        """Return True."""
        del step
        return True


def commit_when_settled(
    lineage: Lineage, announcements: Mapping[Member, Announcement], hosts: Mapping[Member, str], *, copies: int
) -> SafePoint:
    """Commit also a step with a single holder, when that holder makes no further copies."""
    point = decide_safe_point(lineage, announcements, hosts, copies=copies)
    settled = [each.oldest_uncommitted for each in announcements.values() if each.is_settled]
    if announcements.keys() == hosts.keys() and len(settled) == len(hosts) and len(set(settled)) == 1:
        alone = decide_safe_point(lineage, announcements, hosts, copies=0)
        return point if alone.committed != settled[0] else alone
    return point


Ready = Mapping[Member, int]


def await_no_list(_closed: RendezvousState, _holdings: Records, _ready: Ready) -> list[Member]:
    """Wait for the list of no member."""
    return []


def await_no_list_if_a_step_is_in_memory(closed: RendezvousState, holdings: Records, ready: Ready) -> list[Member]:
    """Wait for lists only if nothing is restored, also while no node has listed the directory."""
    return [] if closed.restore else awaited_lists(closed, holdings, ready)


def count_lists_of_earlier_rounds(closed: RendezvousState, holdings: Records, ready: Ready) -> list[Member]:
    """Wait only for nodes that know that their lists are old."""
    return awaited_lists(closed, holdings, dict.fromkeys(ready, closed.round))


def miss_no_round(_history: History, _followed: Lineage | None) -> bool:
    """Return False: the first list counts for ever."""
    return False


def choose_without_older_steps(*given: Any, **options: Any) -> RestoreDecision:
    """Forget the older steps of the shared directory."""
    return replace(choose_restore(*given, **options), older=History())


def choose_all_steps_as_older(history: History, records: Records, *given: Any, **options: Any) -> RestoreDecision:
    """Let a new run descend from all steps of the shared directory."""
    decision = choose_restore(history, records, *given, **options)
    steps = [each.step for record in records.values() for each in (record.persisted, *record.older) if each]
    lineages = dict.fromkeys(step.lineage for step in steps if not decision.history.is_alive(step))
    entries = tuple(HistoryEntry(lineage, None) for lineage in lineages)
    return decision if history.entries or not decision.run else replace(decision, older=History(entries))


def choose_the_needed_lineages_first(
    history: History, records: Records, hosts: Mapping[Member, str], *, copies: int, older: History
) -> RestoreDecision:
    """Put each lineage that is on disk only behind those that the memory needs, also if it is newer."""
    decision = choose_restore(history, records, hosts, copies=copies, older=older)
    without = {member: replace(record, older=()) for member, record in records.items()}
    needed = choose_restore(history, without, hosts, copies=copies, older=older).history
    entries = (*decision.history.entries, *decision.older.entries)
    behind = History(tuple(each for each in entries if each not in needed.entries))
    return replace(decision, history=needed, older=behind)


FIRST_DESIGNS = {
    1: Rules(choose_restore=choose_by_number, select_alive=keep_the_dead),
    2: Rules(superseded=keep_the_two_newest, decide_safe_point=commit_nothing),
    3: Rules(decide_safe_point=answer_without_floor),
    4: Rules(decide_safe_point=forget_commits),
    5: Rules(decide_safe_point=commit_when_published),
    6: Rules(writes_holdings_with_ready=False),
    7: Rules(fails_the_round=False),
    8: Rules(choose_restore=choose_without_history, select_alive=keep_the_dead),
    9: Rules(begins_without_commit=False),
    10: Rules(count_records=count_former_members),
    11: Rules(strike_step=never_strike),
    12: Rules(has_directory_per_round=False),
    14: Rules(keeper_round=RoundOfAllSteps),
    15: Rules(announced=announce_everything, superseded=supersede_all_between, skips_before_superseding=False),
    16: Rules(decide_safe_point=commit_when_settled),
    17: Rules(announced=announce_everything, superseded=supersede_all_between),
    18: Rules(answer_offer=take_skipped_parts),
    19: Rules(awaited_lists=await_no_list),
    20: Rules(awaited_lists=await_no_list_if_a_step_is_in_memory),
    21: Rules(has_missed_rounds=miss_no_round),
    22: Rules(awaited_lists=count_lists_of_earlier_rounds),
    23: Rules(choose_restore=choose_without_older_steps),
    24: Rules(choose_restore=choose_all_steps_as_older),
    25: Rules(choose_restore=choose_the_needed_lineages_first),
    26: Rules(removes_at_once=True),
    27: Rules(reports_lists_after_ready=False),
}
"""By the number of the first design. Number 13 is about records: it has a test of its own."""
