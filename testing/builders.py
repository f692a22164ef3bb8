"""Small records for tables about the operator's pure parts: a job `j` whose slot N belongs to the pod `j-N-a`.

No builder decides anything: it only fills in fields that a test does not set.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from elasticjob_api.job import ElasticJob, Metadata
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import (
    NodeRecord,
    NodeReport,
    NodeSamples,
    Progress,
    SlotOwner,
    SpecRecord,
    WorkerFailure,
    WorkerReport,
    WorkerState,
)
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import FailureEntry, NodeEntry, RendezvousView
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import Condition, JobStatus
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import wanted_revision
from elasticjob_operator.model.snapshot import DeletedJob, JobSnapshot, Observation
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.planner.derive import derive_snapshot
from elasticjob_operator.settings import Settings

NOW_S = 1_700_000_000.0
NOW = to_rfc3339(NOW_S)
KEY = JobKey("ns", "j", "job-uid")
SETTINGS = Settings(cluster_id="c", operator_id="op", etcd_endpoints=("etcd-0:2379", "etcd-1:2379"))


def ago(seconds: float) -> str:
    """Return a time before now, as Kubernetes writes it."""
    return to_rfc3339(NOW_S - seconds)


def template(**container: Any) -> dict[str, Any]:
    trainer = {"name": "trainer", "image": "img", "command": ["python", "train.py"], **container}
    return {"spec": {"containers": [trainer]}}


def spec(**fields: Any) -> JobSpec:
    return JobSpec(**{"template": template(), **fields})


def job(*, status: JobStatus | None = None, annotations: Mapping[str, str] | None = None, **fields: Any) -> ElasticJob:
    meta = Metadata(name=KEY.name, namespace=KEY.namespace, uid=KEY.uid, generation=7, annotations=annotations or {})
    return ElasticJob(metadata=meta, spec=spec(**fields), status=status or JobStatus())


def pod(slot: int = 0, **fields: Any) -> Pod:
    """Return a running pod that was created just now."""
    name = fields.pop("name", f"j-{slot}-a")
    given = {"uid": f"uid-{name}", "phase": "Running", "created_s": NOW_S, "node_name": f"node-{slot}", **fields}
    return Pod(name=name, slot=slot, **given)


def by_name(*pods: Pod) -> dict[str, Pod]:
    return {each.name: each for each in pods}


def names(slots: Iterable[int]) -> dict[int, SlotOwner]:
    return {slot: SlotOwner(f"j-{slot}-a") for slot in slots}


def record(*slots: int, **fields: Any) -> SpecRecord:
    """Return a spec record in which the slots belong to their usual pods."""
    return SpecRecord(**{"min": 1, "max": 8, "desired": len(slots), "slots": names(slots), "operator": "op", **fields})


def member(slot: int) -> Member:
    return Member(slot, f"{slot + 0xA0:08x}")


def members(*slots: int) -> tuple[Member, ...]:
    return tuple(member(slot) for slot in slots)


def state(phase: RoundPhase = RoundPhase.FORMING, **fields: Any) -> RendezvousState:
    return RendezvousState(**{"phase": phase, "round": 1, "nonce": "n1", **fields})


def active(*slots: int, **fields: Any) -> RendezvousState:
    """Return an active round of these slots, in rank order, with two workers each."""
    return state(RoundPhase.ACTIVE, members=members(*slots), **{"nprocs": f"2x{len(slots)}", **fields})


def node(slot: int = 0, *, revision: int = 1, **fields: Any) -> NodeEntry:
    """Return the key of the agent in the slot's usual pod."""
    name = fields.pop("pod", f"j-{slot}-a")
    given = {"pod_uid": f"uid-{name}", "lease": 100 + slot, "host": "h", "address": "10.0.0.1", "nproc": 2, **fields}
    return NodeEntry(member(slot), NodeRecord(pod=name, **given), create_revision=revision, lease=given["lease"])


def nodes(*slots: int) -> dict[Member, NodeEntry]:
    return {member(slot): node(slot) for slot in slots}


def report(slot: int = 0, *states: WorkerState, **fields: Any) -> NodeReport:
    workers = tuple(WorkerReport(rank=i, state=state, pid=10 + i) for i, state in enumerate(states))
    given = {"pod": f"j-{slot}-a", "pod_uid": f"uid-j-{slot}-a", "round": 1, "group_rank": slot, **fields}
    return NodeReport(workers=workers, **given)


def failures(name: str, record: WorkerFailure) -> dict[FailureKey, FailureEntry]:
    """Return one failure of a view; `name` is the end of its key, as in `root_cause`."""
    key = FailureKey.parse(name)
    assert key is not None
    return {key: FailureEntry(key, record, 1)}


def samples(progress: Progress | None = None, *, round_: int = 1, at_s: float = NOW_S, **fields: Any) -> NodeSamples:
    """Return the samples of an agent."""
    return NodeSamples(round=round_, progress=progress, time_ns=int(at_s * 1e9), **fields)


def membership(*slots: int, round_: int = 1) -> Membership:
    return Membership(round_, members(*slots))


def view(*slots: int, **fields: Any) -> RendezvousView:
    """Return a view in which the slots' pods have live agents; the given records exist."""
    given: dict[str, Any] = {"spec": record(*slots), "nodes": nodes(*slots), **fields}
    given.setdefault("spec_revision", 5 if given["spec"] is not None else 0)
    given.setdefault("state_revision", 6 if given.get("state") is not None else 0)
    return RendezvousView(revision=10, empty=False, **given)


def running(*slots: int, **fields: Any) -> RendezvousView:
    """Return the view of a job whose first round runs with these slots."""
    return view(*slots, **{"state": active(*slots), "membership": membership(*slots), **fields})


def seen(of: ElasticJob, at: RendezvousView, *pods: Pod, **fields: Any) -> JobSnapshot:
    """Return the snapshot of an accepted job, derived as the operator does."""
    observed = observation(at, *pods, **fields)
    observed.job_state.revision = observed.job_state.revision or wanted_revision(of, observed.settings)
    return derive_snapshot(observed, of)


def observation(at: RendezvousView, *pods: Pod, **fields: Any) -> Observation:
    given = {"job_state": JobState(), "settings": SETTINGS, "now_s": NOW_S, **fields}
    given.setdefault("monotonic_s", given["now_s"])
    return Observation(key=KEY, pods=by_name(*pods), view=at, **given)


def deleted(at: RendezvousView, *pods: Pod, **fields: Any) -> DeletedJob:
    return DeletedJob(**vars(observation(at, *pods, **fields)))


def condition(name: str, status: Any = "True", reason: str = "Because", **fields: Any) -> Condition:
    return Condition(type=name, status=status, reason=reason, **fields)
