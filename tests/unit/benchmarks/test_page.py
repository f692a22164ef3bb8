"""docs/benchmarks.md has every row with its peer and its floor, and marks missing results."""

import math

from benchmarks.report import page, results
from benchmarks.report.results import FLOOR, OURS, Report, Series


def a_report(*series: Series) -> Report:
    return Report("now", {"python": "3.11"}, list(series), {"worker exits": "round 2: 2,600 µs"})


def row_of(written: str, title: str) -> list[str]:
    line = next(line for line in written.splitlines() if line.startswith(f"| {title} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_has_ours_its_target_its_peer_and_the_distance_to_the_floor() -> None:
    ours = Series("processes", "64 × `true` started", OURS, (0.02, 0.03, 0.04), target=0.15)
    torch = Series("processes", "64 × `true` started", "torch elastic", (0.3,))
    floor = Series("floors", "64 × `true` started", FLOOR, (0.015,))
    cells = row_of(page.page(a_report(ours, torch, floor), [], "x", {}), "64 × `true` started")
    assert cells[1:] == ["3", "30 ms", "40 ms", "150 ms", "15 ms", "2.0", "torch elastic", "1", "300 ms", "300 ms"]


def test_a_peer_that_never_came_is_said_so() -> None:
    torchrun = Series("recovery", "agent SIGKILLed", "torchrun c10d", (math.inf, math.inf))
    assert row_of(page.page(a_report(torchrun), [], "x", {}), "agent SIGKILLed")[-3:] == ["2", "never", "never"]


def test_plots_and_traces_and_the_machine_are_on_the_page() -> None:
    series = Series("recovery", "agent joins", OURS, (0.2,))
    written = page.page(a_report(series), ["recovery.svg", "other.svg"], "benchmarks", {})
    assert "(benchmarks/recovery.svg)" in written
    assert "round 2: 2,600 µs" in written
    assert "| python | 3.11 |" in written
    assert "other.svg" not in written


def test_every_part_of_a_floor_is_a_row_that_the_floors_measure() -> None:
    parts = {part for floor in page.FLOORS.values() for part in floor}
    made = [Series("floors", part, FLOOR, (1.0,)) for part in parts]
    assert all(page.floor_of(name, made) for name in page.FLOORS)
    assert page.floor_of("agent joins", [made[0]]) is None


def test_a_title_with_a_size_names_the_number_of_nodes() -> None:
    assert results.titled(Series("rendezvous", "first round", OURS, (1.0,), size=64)) == "first round, 64 nodes"


def test_a_profile_has_a_heading_that_the_goals_can_link_to() -> None:
    report = Report("now", {}, [], {"worker exits": "round 2", "Profile of the members": "gRPC 20 %"})
    traces, profiles = page.page(report, [], "x", {}).split("## Profile of the members")
    assert ("round 2" in traces, "gRPC 20 %" in traces) == (True, False)
    assert "```\ngRPC 20 %\n```" in profiles
