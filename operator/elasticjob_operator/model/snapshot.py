"""The input of a plan: one job at one moment. `planner.derive` makes it from an observation."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from elasticjob_api.job import ElasticJob
from elasticjob_api.records import NodeSamples
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.slot_pod import SlotPod
from elasticjob_operator.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One job's pods by name, its rendezvous, and the state of this process.

    `now_s` is wall clock time, for comparison with timestamps of the API server. `monotonic_s` is for times in the job
    state.
    """

    key: JobKey
    pods: Mapping[str, Pod]
    view: RendezvousView
    job_state: JobState
    settings: Settings
    now_s: float
    monotonic_s: float
    etcd_trouble: str = ""
    """Why etcd is unavailable; then `view` is from the time before."""
    store: int = 0
    """Number of wipes of etcd, which identifies its contents."""

    @property
    def prefix(self) -> str:
        """The prefix of the job's keys in etcd."""
        return self.key.keys(self.settings.cluster_id).prefix

    @property
    def is_readable(self) -> bool:
        """Whether `view` shows the job's rendezvous as it is now."""
        return not self.etcd_trouble and not self.view.is_unreadable

    @property
    def is_behind(self) -> bool:
        """Whether `view` lacks our own last write."""
        store, revision = self.job_state.written
        return store == self.store and self.view.revision < revision


@dataclass(frozen=True, kw_only=True)
class DeletedJob(Observation):
    """A job that is being deleted, or does not exist in the cache; another one may have its name."""


@dataclass(frozen=True, kw_only=True)
class RejectedJob(Observation):
    """A job whose manifest is rejected."""

    message: str
    generation: int
    status: JobStatus
    """The last written status."""


@dataclass(frozen=True, slots=True)
class LostPods:
    """The uids of lost pods, and the time of the next check."""

    uids: frozenset[str]
    check_at_s: float | None


@dataclass(frozen=True, kw_only=True)
class JobSnapshot(Observation):
    """An accepted job that is not being deleted, with the values that several policies need; each is derived once."""

    job: ElasticJob
    owners: Mapping[int, SlotPod]
    """The pod of every slot, with its state."""
    slot_agents: Mapping[int, Member]
    """Slot → session of the live agent in the slot's own pod."""
    waiting_slots: Mapping[int, str]
    """Slot → the pod that has to end before the slot's own pod is created."""
    lost_pods: LostPods
    wanted_revision: Revision
    """The revision that the job would have if it started or resumed now."""
    outdated_pods: Mapping[str, Pod]
    """Live pods, by name, of another template or another installation."""

    @property
    def status(self) -> JobStatus:
        """The last written status: our own last write is newer than the cache."""
        return self.job_state.status or self.job.status

    @property
    def rounds(self) -> tuple[RoundStatus, ...]:
        """The last recorded rounds: there may have been several since the last write of the status."""
        return self.status.rounds if self.job_state.rounds is None else self.job_state.rounds

    @cached_property
    def joined_slots(self) -> frozenset[int]:
        """The slots whose own pod has a live agent."""
        return frozenset(self.slot_agents)

    @cached_property
    def samples(self) -> Mapping[Member, NodeSamples]:
        """The last samples of each session of the last round, also of those that their agent has removed."""
        return {**self.job_state.last_seen.samples, **self.view.samples}


Snapshot = JobSnapshot | RejectedJob | DeletedJob
