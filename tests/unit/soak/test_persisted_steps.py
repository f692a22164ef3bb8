"""The soak of Keep finds a round that begins below the shared directory, and none that may not know a newer step."""

from typing import Any

import pytest

from elasticjob_api.kept_steps import KeptStep
from tests.soak.keep.events import Event, Journal
from tests.soak.keep.persisted_steps import find_missing_at_end, find_rounds_below_disk

OLD, NEW = "1.aa.5.2", "2.bb.9.2"
FIRST, HISTORY = ["node-1", "node-2"], "2.bb.*,1.aa.5"


def state(t: float, phase: str, round_: int, nonce: str, nodes: list[str], **more: Any) -> Event:
    words = {"restore": "", "is_from_disk": False, "history": "", "next_history": "", "cause": ""}
    return {"t": t, "event": "state", "phase": phase, "round": round_, "nonce": nonce, "nodes": nodes, **words, **more}


def whole(t: float, step: str) -> Event:
    return {"t": t, "event": "whole", "step": step}


def fault(t: float, kind: str, node: str) -> Event:
    return {"t": t, "event": "fault", "kind": kind, "node": node, "loss": True}


def found(*events: Event) -> list[str]:
    journal = Journal()
    for event in events:
        journal.add(event)
    return list(find_rounds_below_disk(journal))


TRAINED = [
    whole(90, OLD),
    state(100, "forming", 2, "b", [], history="1.aa.*"),
    state(101, "active", 2, "bb", FIRST, restore=OLD, history="1.aa.5"),
    whole(110, NEW),
]
BOTH_ARE_LOST = [fault(120, "node is lost", "node-1"), fault(120, "node is lost", "node-2")]
FORMING = state(126, "forming", 3, "c", [], history=HISTORY)


def begun(nodes: list[str], restore: str, *, from_disk: bool, next_history: str | None = None) -> Event:
    after = f"{restore.rpartition('.')[0]}" if next_history is None else next_history
    return state(130, "active", 3, "cc", nodes, restore=restore, is_from_disk=from_disk, next_history=after)


def test_the_newest_committed_step_is_on_disk_when_all_nodes_have_ended() -> None:
    journal = Journal()
    for t, round_, step in ((100, 1, 50), (120, 2, 8), (130, 2, 9)):
        journal.add({"t": t, "event": "report", "lineage_round": round_, "step": step})
    assert list(find_missing_at_end(journal, {KeptStep.parse(NEW)})) == []
    (sentence,) = find_missing_at_end(journal, {KeptStep.parse("1.aa.50.2"), KeptStep.parse("2.bb.8.2")})
    assert "step 9 of round 2 is not on disk; the newest is 8" in sentence


def test_nothing_is_found_if_the_newest_step_is_restored() -> None:
    assert found(*TRAINED, *BOTH_ARE_LOST, FORMING, begun(FIRST, NEW, from_disk=True)) == []


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (begun(FIRST, OLD, from_disk=True), f"restores {OLD}, and {NEW} was whole on disk"),
        (begun(FIRST, OLD, from_disk=False), f"restores {OLD}, and {NEW} was whole on disk"),
        (begun(FIRST, "", from_disk=False), f"begins with nothing, and {NEW} was whole on disk"),
        (begun(FIRST, "2.bb.12.2", from_disk=False, next_history="1.aa.5"), f"gives {NEW} up"),
    ],
)
def test_a_round_of_new_nodes_that_gives_the_newest_step_up_is_found(after: Event, what: str) -> None:
    (sentence,) = found(*TRAINED, *BOTH_ARE_LOST, FORMING, after)
    assert what in sentence


def test_a_node_that_had_no_place_in_the_round_before_must_not_trust_its_old_list() -> None:
    (sentence,) = found(*TRAINED, *BOTH_ARE_LOST, FORMING, begun(["node-3"], OLD, from_disk=True))
    assert NEW in sentence


def test_a_new_member_that_is_waited_for_must_name_the_newest_step() -> None:
    (sentence,) = found(*TRAINED, BOTH_ARE_LOST[0], FORMING, begun(FIRST, OLD, from_disk=True))
    assert NEW in sentence


@pytest.mark.parametrize(
    "events",
    [
        [*TRAINED, FORMING, begun(FIRST, OLD, from_disk=True)],
        [*TRAINED, BOTH_ARE_LOST[0], FORMING, begun(["node-2", "node-3"], OLD, from_disk=False)],
        [*TRAINED[:-1], *BOTH_ARE_LOST, whole(125, NEW), FORMING, begun(FIRST, OLD, from_disk=True)],
        [*TRAINED, *BOTH_ARE_LOST, {**FORMING, "history": "1.aa.5"}, begun(FIRST, OLD, from_disk=True)],
        [*TRAINED, *BOTH_ARE_LOST, begun(FIRST, OLD, from_disk=True)],
        [
            *TRAINED[:-1],
            *BOTH_ARE_LOST,
            whole(125, NEW),
            FORMING,
            begun(FIRST, NEW, from_disk=True, next_history="2.bb.9"),
        ],
    ],
    ids=["all followed", "memory is enough", "whole too late", "given up before", "no forming state", "newer"],
)
def test_a_round_that_may_not_know_the_newest_step_is_not_found(events: list[Event]) -> None:
    assert found(*events) == []
