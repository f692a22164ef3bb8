"""The rules that a simulated job follows: those of the product. A test replaces one by a wrong one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elasticjob_agent.keep.rules.commit import SafePoint, decide_safe_point
from elasticjob_agent.keep.rules.persisting import found_by_all, has_missed_rounds, superfluous
from elasticjob_agent.keep.rules.replication import OfferAnswer, answer_offer
from elasticjob_agent.keep.rules.retention import KeeperRound, announced, is_skipped, select_alive, superseded
from elasticjob_agent.rendezvous.protocol.keep.history import strike_step
from elasticjob_agent.rendezvous.protocol.keep.restore_choice import RestoreDecision, choose_restore
from elasticjob_agent.rendezvous.protocol.keep.state_words import awaited_lists
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member

Records = Mapping[Member, HoldingsRecord]


def count_all(records: Records, _previous: frozenset[Member]) -> Records:
    """Return the records that the leader counts: those of all live nodes, members or not."""
    return records


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Each rule that some first design lacked. The job calls all others directly."""

    choose_restore: Callable[..., RestoreDecision] = choose_restore
    count_records: Callable[[Records, frozenset[Member]], Records] = count_all
    strike_step: Callable[[History, KeptStep], History] = strike_step
    select_alive: Callable[[Holdings, History, Lineage | None], Holdings] = select_alive
    superseded: Callable[..., list[KeptStep]] = superseded
    is_skipped: Callable[..., bool] = is_skipped
    announced: Callable[..., Holdings] = announced
    answer_offer: Callable[..., OfferAnswer] = answer_offer
    decide_safe_point: Callable[..., SafePoint] = decide_safe_point
    awaited_lists: Callable[..., list[Member]] = awaited_lists
    has_missed_rounds: Callable[[History, Lineage | None], bool] = has_missed_rounds
    superfluous: Callable[..., list[PersistedStep]] = superfluous
    keeper_round: type[KeeperRound] = KeeperRound
    found_by_all: Callable[..., PersistedStep | None] = found_by_all
    removes_at_once: bool = False
    """Whether a node removes older steps as soon as it finds a newer one itself."""
    reports_lists_after_ready: bool = True
    """Whether a node that is ready for a round reports what it finds in the shared directory until that closes."""
    begins_without_commit: bool = True
    """Whether a keeper forgets at each active state what was committed, so that all of it is copied again."""
    skips_before_superseding: bool = True
    """Whether a step without room is dropped instead of those between, and not after them."""
    has_directory_per_round: bool = True
    writes_holdings_with_ready: bool = True
    fails_the_round: bool = True
    """Whether a failed fetch opens a round; else the node takes an older step by itself."""
