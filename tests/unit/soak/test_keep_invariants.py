"""The soak of Keep finds each broken invariant in a journal, and none in one of a healthy job."""

import itertools
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elasticjob_api.kept_steps import Lineage
from tests.soak.keep import volumes
from tests.soak.keep.events import Event, Journal
from tests.soak.keep.histogram import lost_steps
from tests.soak.keep.invariants import find_violations
from tests.soak.keep.persisted_steps import restores_from_disk
from tests.soak.keep.volumes import find_excess, held_parts

A, B, C = "1.aa", "2.bb", "3.cc"
MEMBERS = ["0000aaaaaaaa", "0001bbbbbbbb"]


def journal(*events: Event) -> Journal:
    made = Journal()
    for event in events:
        made.add(event)
    return made


def active(t: float, lineage: str, members: list[str] = MEMBERS) -> Event:
    round_, _, nonce = lineage.partition(".")
    return {"t": t, "event": "state", "phase": "active", "round": int(round_), "nonce": nonce, "members": members}


def worker(t: float, event: str, lineage: str, rank: int, **fields: Any) -> Event:
    place = {"t": t, "event": event, "lineage": lineage, "round": int(lineage.partition(".")[0]), "rank": rank}
    return {**place, "node": f"node-{rank}", **fields}


def running(t: float, lineage: str, restored: str = "", state: str = "") -> list[Event]:
    return [worker(t, "running", lineage, rank, restored=restored, state=state, world=2) for rank in (0, 1)]


def published(t: float, lineage: str, step: int, ranks: tuple[int, ...] = (0, 1), state: str = "") -> list[Event]:
    events = ("publishing", "published")
    named = state or f"{lineage}-{step}"
    return [
        worker(t, event, lineage, rank, step=step, index=rank, parts=2, state=named)
        for rank in ranks
        for event in events
    ]


def fault(t: float, kind: str, node: str, *, loss: bool = False) -> Event:
    return {"t": t, "event": "fault", "kind": kind, "node": node, "loss": loss}


def report(t: float, lineage_round: int, step: int) -> Event:
    known = {"address": "10.0.0.1", "round": lineage_round, "lineage_round": lineage_round, "step": step}
    return {"t": t, "event": "report", **known}


FIRST = [active(100, A), *running(101, A), *published(110, A, 1), *published(120, A, 2)]
WORKER_DIES = fault(130, "worker dies", "node-0")
NODE_IS_LOST = fault(130, "node is lost", "node-0", loss=True)


def second(restored: str, state: str = "") -> list[Event]:
    return [active(131, B), *running(132, B, restored, state)]


def test_nothing_is_found_in_a_job_that_goes_on_from_its_newest_step() -> None:
    events = [*FIRST, report(121, 1, 2), WORKER_DIES, *second(f"{A}.2.2", f"{A}-2"), *published(140, B, 3)]
    events += [
        fault(150, "network is cut", "node-1", loss=True),
        active(151, C),
        *running(152, C, f"{B}.3.2", f"{B}-3"),
    ]
    assert find_violations(journal(*events), 1) == []
    assert {name: dict(counts) for name, counts in lost_steps(journal(*events)).items()} == {
        "a worker killed": {0: 1},
        "a node lost, cut off, or its agent restarted": {0: 1},
    }


def test_a_step_that_is_read_on_disk_is_compared_with_what_was_published() -> None:
    events = [*FIRST, WORKER_DIES, *second("step-2.run.1.aa.2", f"{A}-2")]
    assert find_violations(journal(*events), 1) == []
    assert restores_from_disk(journal(*events)) == 1
    events[-1] = running(132, B, f"{A}.2.2", f"{A}-2")[1]  # that node had it in memory
    assert find_violations(journal(*events), 1) == []
    (sentence,) = find_violations(journal(*FIRST, WORKER_DIES, *second("step-2.run.1.aa.2", "other bytes")), 1)
    assert "G1" in sentence


@pytest.mark.parametrize(
    ("number", "events"),
    [
        ("G1", [WORKER_DIES, *second(f"{A}.2.2", "other bytes")]),
        ("G2", [WORKER_DIES, *second(f"{A}.9.2", f"{A}-9")]),
        ("G2", [*published(125, A, 3, ranks=(0,)), WORKER_DIES, *second(f"{A}.3.2", f"{A}-3")]),
        ("G3", [WORKER_DIES, active(131, B), running(132, B, f"{A}.2.2", f"{A}-2")[0], running(132, B)[1]]),
        ("G4", [WORKER_DIES, *second(f"{A}.1.2", f"{A}-1")]),
        ("G4", [WORKER_DIES, *second("")]),
        ("G5", [report(121, 1, 2), NODE_IS_LOST, *second(f"{A}.1.2", f"{A}-1")]),
        ("G5", [report(121, 1, 2), NODE_IS_LOST, *second("")]),
        ("G6", [NODE_IS_LOST, *second(""), active(140, C), *running(141, C, f"{A}.2.2", f"{A}-2")]),
        ("G8", [{**active(131, B), "phase": "forming", "cause": "RestoreFailed"}]),
        ("torn", [worker(125, "violation", A, 0, text="torn")]),
    ],
)
def test_each_broken_invariant_is_found(number: str, events: list[Event]) -> None:
    found = find_violations(journal(*FIRST, *events), 1)
    assert any(number in sentence for sentence in found), found


@pytest.mark.parametrize(
    "events",
    [
        [report(121, 1, 2), NODE_IS_LOST, fault(130.5, "node is lost", "node-1", loss=True), *second("")],
        [report(121, 1, 2), active(131, B, ["0002cccccccc", "0003dddddddd"]), *running(132, B)],
        [*published(125, A, 3, ranks=(0,)), NODE_IS_LOST, *second(f"{A}.2.2", f"{A}-2")],
        [NODE_IS_LOST, {**active(131, B), "phase": "forming", "cause": "RestoreFailed"}],
    ],
)
def test_more_losses_than_copies_may_take_any_step(events: list[Event]) -> None:
    assert find_violations(journal(*FIRST, *events), 1) == []


def test_the_lost_steps_of_a_change_are_the_whole_ones_that_were_not_restored() -> None:
    events = [*FIRST, *published(125, A, 3, ranks=(0,)), NODE_IS_LOST, *second(f"{A}.1.2", f"{A}-1")]
    assert lost_steps(journal(*events)) == {"a node lost, cut off, or its agent restarted": {1: 1}}


def test_parts_that_a_keeper_drops_meanwhile_do_not_end_the_count(tmp_path: Path) -> None:
    lineage = tmp_path / "keep" / "volume" / "held" / "1.abc"
    (lineage / "1" / "0-of-1").mkdir(parents=True)
    (trash := tmp_path / "trash").mkdir()
    has_ended = threading.Event()

    def drop_and_take() -> None:
        for number in itertools.count(2):
            if has_ended.is_set():
                return
            (lineage / f"{number}" / "0-of-1").mkdir(parents=True)
            (lineage / f"{number}").rename(trash / f"{number}")

    keeper = threading.Thread(target=drop_and_take)
    keeper.start()
    try:
        counted = [held_parts(tmp_path) for _ in range(1000)]
    finally:
        has_ended.set()
        keeper.join()
    assert all((1, 0, 1) in held[Lineage(1, "abc")] for held in counted)


@pytest.mark.parametrize(
    ("frozen_t", "frozen_node", "is_over", "is_allowed"),
    [
        (2.0, "node-0", True, True),
        (2.0, "node-0", False, False),  # in its round a keeper drops what came meanwhile
        (0.5, "node-0", True, False),  # in an earlier round
        (2.0, "node-1", True, False),
    ],
)
def test_more_own_steps_are_left_only_by_a_frozen_keeper_whose_round_has_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    frozen_t: float,
    frozen_node: str,
    *,
    is_over: bool,
    is_allowed: bool,
) -> None:
    monkeypatch.setattr(volumes, "_WITHIN_S", 0.0)
    node: Any = SimpleNamespace(name="node-0", folder=tmp_path)
    published = [worker(2.0, "published", A, 0, step=number, index=0, parts=1, state="") for number in range(1, 5)]
    frozen = {"t": frozen_t, "event": "fault", "kind": "keeper stands still", "node": frozen_node, "loss": True}
    over = [{**active(3.0, B), "phase": "forming"}] if is_over else []
    seen = journal(active(0.0, A), *running(1.0, A), *published, frozen, *over)
    for number in range(1, 5):
        assert not find_excess(node, seen), "three are allowed at any time"
        (tmp_path / f"node/volume/held/{A}/{number}/0-of-1").mkdir(parents=True)
    found = find_excess(node, seen)
    assert found == ("" if is_allowed else f"G7: node-0 keeps own steps [1, 2, 3, 4] of round {A}")
