"""The parts of a recovery add up, in any order of the trace's lines; a rank that has not trained yet is no recovery."""

import json

import pytest

from benchmarks.recovery.next_step import parts

AT = 1_000_000


def line(after_ms: float, point: str, **fields: int) -> str:
    return json.dumps({"t_us": AT + int(1000 * after_ms), "agent": "a", "round": 2, "point": point, **fields})


def worker(after_ms: float, point: str, rank: int) -> str:
    return line(after_ms, point, rank=rank, world=2, pid=100 + rank)


def worker_lines(rank: int, *, first: str, late_ms: float = 0) -> list[str]:
    points = ((60, first), (70, "imported"), (90, "process group"), (95, "model"), (100, "first step"))
    return [worker(at_ms + late_ms, point, rank) for at_ms, point in points]


AGENT = [line(10, "detected"), line(12, "detected"), line(40, "saw active"), line(45, "saw active")]


def test_the_parts_end_with_the_last_rank_and_add_up() -> None:
    lines = [*worker_lines(1, first=parts.WARM, late_ms=5), *worker_lines(0, first=parts.WARM), *AGENT]
    found = parts.recovery(parts.read(lines), event_us=AT, world=2)
    assert found is not None
    assert found.parts_s == pytest.approx(
        {
            "detect": 0.010,
            "agree": 0.030,
            "fork": 0.025,
            "script": 0.010,
            "process group": 0.020,
            "model": 0.005,
            "first step": 0.005,
        }
    )
    assert sum(found.parts_s.values()) == pytest.approx(found.took_s) == pytest.approx(0.105)
    assert found.is_warm


def test_one_cold_rank_makes_a_round_cold() -> None:
    lines = [*AGENT, *worker_lines(0, first=parts.WARM), *worker_lines(1, first=parts.COLD)]
    found = parts.recovery(parts.read(lines), event_us=AT, world=2)
    assert found is not None
    assert not found.is_warm


def test_without_points_of_an_agent_all_before_the_script_is_one_part() -> None:
    lines = [*worker_lines(0, first=parts.COLD), *worker_lines(1, first=parts.COLD)]
    found = parts.recovery(parts.read(lines), event_us=AT, world=2)
    assert found is not None
    assert found.parts_s["restart"] == pytest.approx(0.060)
    assert "detect" not in found.parts_s


def test_a_step_of_a_worker_that_lived_before_the_event_does_not_count() -> None:
    before = [line(-50, parts.WARM, rank=0, world=2, pid=7), line(20, "first step", rank=0, world=2, pid=7)]
    lines = [*before, *worker_lines(1, first=parts.WARM)]
    assert parts.recovery(parts.read(lines), event_us=AT, world=2) is None


def test_a_worker_of_another_world_does_not_count() -> None:
    lines = [*worker_lines(0, first=parts.WARM), *worker_lines(1, first=parts.WARM)]
    assert parts.recovery(parts.read(lines), event_us=AT, world=1) is None


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"t_us": "x", "point": "model"}', "7"])
def test_a_damaged_line_is_left_out(damaged: str) -> None:
    lines = [*worker_lines(0, first=parts.WARM), damaged]
    assert len(parts.read(lines)) == 5
