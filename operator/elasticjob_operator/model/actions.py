"""The actions of a plan. Each is one piece of I/O with all its arguments, and decides nothing.

A plan either writes the spec record or acts on the slot map. Pods are created and deleted only for a slot map that the
watch has delivered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api.records import SpecRecord, Tombstone
from elasticjob_api.rendezvous_state import Member, RendezvousState
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.pod_source import PodSource


@dataclass(frozen=True, slots=True)
class Apply:
    """Create or update an object that belongs to the job beside its pods: a service or a disruption budget."""

    resource: Resource
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create a pod whose name this process wrote into the slot map and no pod has had."""

    name: str
    slot: int
    source: PodSource
    strict: bool = False
    """Reject fields that the API server does not know, instead of dropping them."""


@dataclass(frozen=True, slots=True)
class GetPod:
    """Read the pod of this name from the API server; agents have reported `uids` for it."""

    name: str
    uids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the job's object that an earlier `Apply` of this kind created; no object of another owner."""

    resource: Resource


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete these pods (name → uid); with `spec_revision` only if the spec record still has that revision."""

    pods: Mapping[str, str]
    spec_revision: int | None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Name → resourceVersion; a pod that has changed since is not deleted, but reconciled again."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Write the tombstone of a session, then revoke the lease of all its keys."""

    member: Member
    lease: int
    tombstone: Tombstone
    overwrite: bool = False
    """Whether to replace the stored tombstone, because ours has more information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpec:
    """Write the spec record in one transaction, with a rendezvous state and the expected slots.

    The transaction fails if the spec record or the state has changed since.
    """

    record: SpecRecord
    spec_revision: int
    state_revision: int
    state: RendezvousState | None = None
    expected: frozenset[int] | None = None
    expected_pods: frozenset[str] = frozenset()
    """Pod names that no slot map had before."""
    events: tuple[Event, ...] = ()
    """Events about the change, which are written only after the transaction succeeds."""
    import_profile: str = ""
    """The name of an earlier job's import profile; only with a first spec, and if this job's workers may start warm."""


@dataclass(frozen=True, slots=True)
class WriteExpected:
    """Write the expected slots again, if the spec record still has this revision."""

    slots: frozenset[int]
    spec_revision: int


@dataclass(frozen=True, slots=True)
class ForceDelete:
    """Force-delete a pod that is stuck in its deletion, if its node is dead when it is read now."""

    name: str
    uid: str
    node_name: str
    only_proof: bool = False
    """Whether a node that is not ready counts as alive: its kubelet may only be cut off."""


@dataclass(frozen=True, slots=True)
class IssueCertificate:
    """Create the job's user in etcd, and write a new certificate into `secret`."""

    secret: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RemoveEtcdUser:
    """Remove the job's user from etcd."""


@dataclass(frozen=True, slots=True)
class KeepImportProfile:
    """Keep the job's import profile under this name for later jobs of the namespace, if the job has one."""

    name: str
    moment: tuple[int, bool]
    """The round, and whether the job has finished: once for each."""


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Delete every key of the job."""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the ElasticJob itself."""

    uid: str


Action = (
    Apply
    | Remove
    | CreatePod
    | GetPod
    | DeletePods
    | ForceDelete
    | Evict
    | WriteSpec
    | WriteExpected
    | IssueCertificate
    | RemoveEtcdUser
    | KeepImportProfile
    | DeletePrefix
    | DeleteJob
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The actions to carry out now, the status to write, and the seconds until the next reconcile at the latest."""

    actions: tuple[Action, ...] = ()
    status: JobStatus | None = None
    requeue_in_s: float | None = None
    is_last: bool = False
    """Whether nothing of a deleted job is left after the actions."""
