"""The input of a plan: one job at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from elasticjob_api.job import ElasticJob
from elasticjob_api.records import NodeSamples
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision, wanted_revision
from elasticjob_operator.model.slot_pod import SlotPod
from elasticjob_operator.policy.slots.outdated_pods import outdated_pods
from elasticjob_operator.policy.slots.ownership import owners
from elasticjob_operator.policy.slots.predecessors import slots_with_predecessor
from elasticjob_operator.settings import Settings


@dataclass(frozen=True, kw_only=True)
class JobSnapshot:
    """One job, its pods by name, its rendezvous, and the state of this process.

    `now_s` is wall clock time, for comparison with timestamps of the API server. `monotonic_s` is for times in the job
    state. Derived values are computed once and hold while the job state does not change; `replace` computes them again.
    """

    job: ElasticJob
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
    def status(self) -> JobStatus:
        """The last written status: our own last write is newer than the cache."""
        return self.job_state.status or self.job.status

    @property
    def rounds(self) -> tuple[RoundStatus, ...]:
        """The last recorded rounds: there may have been several since the last write of the status."""
        return self.status.rounds if self.job_state.rounds is None else self.job_state.rounds

    @cached_property
    def wanted_revision(self) -> Revision:
        """The revision that the job would have if it started or resumed now."""
        return wanted_revision(self.job, self.settings)

    @cached_property
    def outdated_pods(self) -> Mapping[str, Pod]:
        """Live pods, by name, of another template or another installation."""
        return outdated_pods(self.job, self.pods, self.settings, self.wanted_revision)

    @cached_property
    def samples(self) -> Mapping[Member, NodeSamples]:
        """The last samples of each session of the last round, also of those that their agent has removed."""
        return {**self.job_state.last_seen.samples, **self.view.samples}

    def owners(self) -> dict[int, SlotPod]:
        """Return the pod of every slot, with its state."""
        return self._owners

    def waiting_slots(self) -> Mapping[int, str]:
        """Return slot → the pod that has to end before the slot's own pod is created."""
        return self._waiting_slots

    def joined_slots(self) -> frozenset[int]:
        """Return the slots whose own pod has a live agent."""
        return self._joined_slots

    @cached_property
    def _owners(self) -> dict[int, SlotPod]:
        return owners(self.view.owners(), self.pods, self.job_state, self.monotonic_s)

    @cached_property
    def _waiting_slots(self) -> Mapping[int, str]:
        return slots_with_predecessor(self.job.spec, self._owners, self.pods, self.job_state)

    @cached_property
    def _joined_slots(self) -> frozenset[int]:
        names = self.view.owners()
        sessions = ((member, node) for member, node in self.view.nodes.items() if member not in self.view.tombstones)
        return frozenset(member.slot for member, node in sessions if names.get(member.slot) == node.record.pod)
