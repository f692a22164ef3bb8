"""The expected status of a job at rest, computed from the API server and etcd without the operator's code.

It covers the status after all changes; the state machine itself has the invariants that always hold.
"""

from collections import Counter
from typing import Any

from elasticjob_api.constants import LABEL_JOB_UID
from elasticjob_api.keys import Keys
from elasticjob_api.records import NodeRecord, NodeReport, WorkerState, decode
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_operator.model.objects import is_terminating, uid_of
from elasticjob_operator.model.timestamps import to_rfc3339
from tests.unit.operator.cluster_model import Model, is_live

_LETTERS = {WorkerState.HEALTHY: "R", WorkerState.SUCCEEDED: "C", WorkerState.FAILED: "F"}
_FIELDS = {"P": "pending", "R": "running", "C": "succeeded", "F": "failed", "T": "stopped", "U": "unknown"}
TIMES = ("startTime", "completionTime", "lastRendezvousTime", "lastScaleTime")


def check(model: Model) -> None:
    """Check the status of an existing job against the objects and keys."""
    obj = model.job_object()
    if obj is None:
        return
    status, state = obj["status"], model.state()
    assert _check_reported(status, _from_pods(model, obj)) == _from_pods(model, obj)
    spec = model.spec()
    if spec is not None:
        assert status["podReplacements"] == spec.replacements
    if state is not None:
        assert _check_reported(status, _from_state(model, state)) == _from_state(model, state)
        conditions = {c["type"]: c["status"] == "True" for c in status["conditions"]}
        wanted = _conditions(model, obj, state)
        assert _check_reported(conditions, wanted) == wanted
        _check_workers(model, status, state)
        _check_times(model, obj, state)


def _check_times(model: Model, obj: dict[str, Any], state: RendezvousState) -> None:
    status = obj["status"]
    assert bool(status.get("completionTime")) == state.phase.is_final
    assert bool(status.get("startTime")) == (state.phase.is_final or not obj["spec"].get("suspend"))
    if state.phase is RoundPhase.ACTIVE:
        assert status["lastRendezvousTime"] >= to_rfc3339(model.closed_at_s[state.round])


def _check_reported(status: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: status.get(name) for name in wanted}


def _from_pods(model: Model, obj: dict[str, Any]) -> dict[str, Any]:
    pods = model.pods()
    return {
        "replicas": sum(map(is_live, pods)),
        "terminatingReplicas": sum(map(is_terminating, pods)),
        "desiredReplicas": obj["spec"].get("replicas", 1),
        "observedGeneration": obj["metadata"]["generation"],
        "selector": f"{LABEL_JOB_UID}={uid_of(obj)}",
    }


def _live_members(model: Model, state: RendezvousState) -> int:
    """Return the members of the active round that have a key or have finished."""
    if state.phase is not RoundPhase.ACTIVE:
        return 0
    keys = {kv.key for kv in model.store.range(model.keys.everything).kvs}
    return sum(
        model.keys.node(member.slot, member.incarnation) in keys or model.is_done(state.round, member)
        for member in state.members
    )


def _from_state(model: Model, state: RendezvousState) -> dict[str, Any]:
    fields: dict[str, Any] = {"restarts": state.restarts, "nodeLosses": state.node_losses, "readyReplicas": 0}
    if state.phase is RoundPhase.ACTIVE:
        size = _live_members(model, state)  # one worker each
        fields |= {"readyReplicas": size, "worldSize": size, "rendezvousRound": state.round}
    return fields


def _conditions(model: Model, obj: dict[str, Any], state: RendezvousState) -> dict[str, bool]:
    members = _live_members(model, state)
    suspended = bool(obj["spec"].get("suspend")) and not state.phase.is_final
    return {
        "Accepted": True,
        "Suspended": suspended and not model.pods(),
        "Running": state.phase is RoundPhase.ACTIVE and members > 0,
        "QuorumReached": members >= obj["spec"].get("minReplicas", 1),
        "Degraded": state.phase is RoundPhase.ACTIVE and members < obj["spec"].get("replicas", 1),
        "Complete": state.phase is RoundPhase.SUCCEEDED,
        "Failed": state.phase is RoundPhase.FAILED,
        "RendezvousUnavailable": False,
    }


def _check_workers(model: Model, status: dict[str, Any], state: RendezvousState) -> None:
    counts = {field: status["workerStates"].get(field, 0) for field in _FIELDS.values()}
    nodes = {node["name"]: node["ranks"] for node in status.get("nodes", [])}
    letter_counts = Counter("".join(nodes.values()))
    assert counts == {field: letter_counts[letter] for letter, field in _FIELDS.items()}
    if state.phase is RoundPhase.SUCCEEDED:
        assert set(letter_counts) <= {"C"}
    elif state.phase.is_final:
        assert not set(letter_counts) & set("PRU")
    else:
        assert nodes == {f"j-{slot}": letter for slot, letter in letters(model, state).items()}
        ranks = {node["name"]: node.get("rank") for node in status.get("nodes", [])}
        assert ranks == {f"j-{slot}": rank for slot, rank in _ranks(model, state).items()}


def _memberships(model: Model) -> dict[int, Member | None]:
    """Return slot → the newest incarnation of the agent in the slot's own pod."""
    spec, keys = model.spec(), model.keys
    owners = {slot: owner.pod for slot, owner in spec.slots.items()} if spec else {}
    found: dict[int, Member | None] = dict.fromkeys(owners)
    for kv in sorted(model.store.range(keys.nodes).kvs, key=lambda kv: kv.create_revision):
        member = _member(keys, kv.key)
        if owners.get(member.slot) == decode(NodeRecord, kv.value).pod:
            found[member.slot] = member
    return found


def _member(keys: Keys, key: str) -> Member:
    parsed = keys.parse(key)
    assert parsed is not None
    return Member(parsed.slot or 0, parsed.incarnation or "")


def letters(model: Model, state: RendezvousState) -> dict[int, str]:
    """Return slot → the letter of its only worker."""
    members = {m.slot for m in state.members} if state.phase is RoundPhase.ACTIVE else set()
    return {slot: _letter(model, stay, lost=slot in members) for slot, stay in _memberships(model).items()}


def _letter(model: Model, stay: Member | None, *, lost: bool) -> str:
    kv = model.store.get(model.keys.report(stay.slot, stay.incarnation)) if stay else None
    if kv is None:
        return "U" if lost else "P"
    [worker] = decode(NodeReport, kv.value).workers
    return _LETTERS[worker.state]


def _ranks(model: Model, state: RendezvousState) -> dict[int, int | None]:
    members = list(state.members) if state.phase is RoundPhase.ACTIVE else []
    return {slot: members.index(stay) if stay in members else None for slot, stay in _memberships(model).items()}
