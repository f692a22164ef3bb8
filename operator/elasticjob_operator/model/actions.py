"""What a plan may ask for. Each is one piece of I/O with all it needs; none decides anything.

A plan either writes the spec or acts on the map: pods are created and deleted only from a map that has come
back through the watch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.policy.slots.eviction import Eviction
from elasticjob_operator.render.pod_source import PodSource


@dataclass(frozen=True, slots=True)
class Apply:
    """Create or update an object that stands beside the pods: service, disruption budget."""

    resource: Resource
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create a pod whose name this process wrote and no pod has had."""

    name: str
    slot: int
    source: PodSource
    strict: bool = False
    """Refuse a field that the API server does not know, instead of dropping it."""


@dataclass(frozen=True, slots=True)
class GetPod:
    """Ask the API server whether a pod of this name is there; `uids` are those that agents claim to be of it."""

    name: str
    uids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete what an earlier `Apply` of this kind has made for the job; nothing of anybody else's."""

    resource: Resource


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete these pods (name → uid); with `spec_revision` only if the spec, read now, is still that one."""

    pods: Mapping[str, str]
    spec_revision: int | None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Name → resourceVersion; a pod that has changed since is looked at again first."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Write the proof, then revoke the lease."""

    eviction: Eviction


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpec:
    """One transaction: the spec, and with it a world and the expected slots, if nothing has changed since."""

    record: SpecRecord
    spec_revision: int
    world_revision: int
    world: RendezvousState | None = None
    expected: frozenset[int] | None = None
    expected_pods: frozenset[str] = frozenset()
    """Pod names that no map had before."""
    events: tuple[Event, ...] = ()
    """What it does, for people; told if it is written."""


@dataclass(frozen=True, slots=True)
class WriteExpected:
    """Rewrite the expected slots while the spec is this one."""

    slots: frozenset[int]
    spec_revision: int


@dataclass(frozen=True, slots=True)
class ForceDelete:
    """Delete a pod that is stuck in its deletion without waiting for its node, if that node, looked at now, is dead."""

    name: str
    uid: str
    node_name: str
    only_proof: bool = False
    """A node that is not ready does not count as dead: its kubelet may only be cut off."""


@dataclass(frozen=True, slots=True)
class IssueCertificate:
    """Give the job a user in etcd, and a new certificate in `secret`."""

    secret: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RemoveEtcdUser:
    """Remove the job's user from etcd."""


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
    | DeletePrefix
    | DeleteJob
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now, what to say, and in how many seconds to look again at the latest."""

    actions: tuple[Action, ...] = ()
    status: JobStatus | None = None
    requeue_in_s: float | None = None
