"""PURE: all that a plan is made of, at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_api.job import ElasticJob
from elasticjob_api.records import Report
from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_api.world import Member
from elasticjob_operator.ledger import Ledger
from elasticjob_operator.pods import Pod
from elasticjob_operator.policy.standing import Owner, owners
from elasticjob_operator.settings import Settings
from elasticjob_operator.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One job, its pods by name, its rendezvous, and what this process remembers; `now_s` is wall clock."""

    job: ElasticJob
    pods: Mapping[str, Pod]
    view: View
    ledger: Ledger
    settings: Settings
    now_s: float
    etcd_trouble: str = ""
    """Why etcd cannot be asked; then `view` is as old as that."""
    store: int = 0
    """Which etcd: how many wipes there were."""

    @property
    def status(self) -> JobStatus:
        """What was last said: our own last write is newer than the cache."""
        return self.ledger.status or self.job.status

    @property
    def history(self) -> tuple[RoundStatus, ...]:
        """The job's rounds as last taken in: there may have been several since the last write of the status."""
        return self.status.rounds if self.ledger.history is None else self.ledger.history

    @property
    def reports(self) -> Mapping[Member, Report]:
        """The last report of each stay of the last round, also of those whose agent has taken it along."""
        return {**self.ledger.memory.reports, **self.view.reports}

    def owners(self) -> dict[int, Owner]:
        """The pod of every slot, and what has become of it."""
        return owners(self.view.owners(), self.pods, self.ledger, self.now_s)

    def joined(self) -> frozenset[int]:
        """Slots whose own pod has a living agent."""
        names = self.view.owners()
        stays = ((member, node) for member, node in self.view.nodes.items() if member not in self.view.gone)
        return frozenset(member.slot for member, node in stays if names.get(member.slot) == node.record.pod)
