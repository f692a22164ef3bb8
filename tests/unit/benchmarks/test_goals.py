"""The table of goals: met, or how far from it and why; a missing measurement or another size is marked."""

import re
from pathlib import Path

from benchmarks.report import goals, page
from benchmarks.report.goals import GOALS, ClusterGoal
from benchmarks.report.results import FLOOR, OURS, Series

LATENCIES = Path(__file__).parents[3] / "docs" / "latencies.md"


def row_of(what: str, *series: Series, on_a_cluster: dict[str, float] | None = None) -> list[str]:
    lines = goals.table(series, on_a_cluster or {})
    return [cell.strip() for line in lines if line.startswith(f"| {what}") for cell in line.strip("| ").split(" | ")]


def test_a_goal_that_is_met_has_its_peer_beside_and_no_excuse() -> None:
    ours = Series("recovery", "agent joins", OURS, (0.2, 0.25, 0.3), target=0.3)
    torchrun = Series("recovery", "agent joins", "torchrun c10d", (3.3,))
    cells = row_of("a node joins", ours, torchrun)
    assert cells[1:7] == ["300 ms", "250 ms", "3", "yes", "torchrun c10d", "3.3 s"]
    assert "trace" not in "".join(cells)


def test_a_goal_that_only_the_slowest_miss_is_met_and_says_how_far_those_were() -> None:
    cells = row_of("a node joins", Series("recovery", "agent joins", OURS, (0.2, 0.2, 0.36), target=0.3))
    assert cells[4] == "yes"
    assert cells[-1].startswith("its p99, 360 ms, is x 1.20; ")


def test_a_goal_that_is_missed_says_how_far_and_links_to_the_profile() -> None:
    cells = row_of("a node joins", Series("recovery", "agent joins", OURS, (0.6,), target=0.3))
    assert cells[4] == "**no**"
    assert cells[-1].startswith("x 2.00; ")
    assert "](#where-the-time-goes)" in cells[-1]


def test_every_goal_that_this_machine_can_miss_has_a_reason_ready_that_links_somewhere() -> None:
    assert all("](" in goal.reason for goal in GOALS if not isinstance(goal, ClusterGoal))


def test_every_reason_links_to_a_heading_that_is_there() -> None:
    own = "\n".join(f"## {title}" for title in [*page.TITLES.values(), *page.PROFILES, "Where the time goes"])
    for file, anchor in re.findall(r"\]\(([\w.]*)#([\w-]+)\)", " ".join(str(goal) for goal in GOALS)):
        text = (LATENCIES.parent / file).read_text() if file else own
        titles = [line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")]
        assert anchor in [re.sub(r"[^\w-]+", "", title.replace(" ", "-")) for title in titles], (file, anchor)


def test_what_was_not_measured_is_not_said_to_be_met() -> None:
    floor = Series("recovery", "agent joins", FLOOR, (0.1,))
    assert row_of("a node joins", floor)[2] == "not measured in this run"


def test_a_smaller_size_is_named_and_continued_to_the_goals() -> None:
    measured = [
        Series("operator", "steady: memory", OURS, (100.0 + jobs / 10,), "MB", 300.0, jobs) for jobs in (20, 60, 200)
    ]
    cells = row_of("operator, 1,000 jobs of 10 pods: memory", *measured)
    assert "(here 200 jobs)" in cells[0]
    assert cells[4] == "yes, at this size"
    assert cells[-1].startswith("200 MB at 1,000")


def test_what_would_miss_the_goal_at_its_size_says_how_far_and_links_to_the_profile() -> None:
    measured = [Series("operator", "steady: processor", OURS, (jobs / 100,), "%", 5.0, jobs) for jobs in (20, 60, 200)]
    cells = row_of("operator, 1,000 jobs of 10 pods: processor", *measured)
    assert cells[4] == "yes, at this size"
    assert "x 2.00; the operator's processor time: [profile](#profile-of-the-operator-at-rest)" in cells[-1]


def test_a_larger_job_than_the_goals_does_not_count() -> None:
    sizes = [Series("rendezvous", "first round", OURS, (nodes / 2000,), "s", 1.0, nodes) for nodes in (1000, 2000)]
    assert row_of("rendezvous of 1,000 agents", *sizes)[2] == "500 ms"


def test_the_rows_of_a_cluster_are_on_their_page() -> None:
    measured = goals.latencies(LATENCIES.read_text())
    wanted = [goal for goal in GOALS if isinstance(goal, ClusterGoal)]
    assert {goal.name for goal in wanted} <= measured.keys()
    assert all(row_of(goal.what, on_a_cluster=measured)[4] in {"yes", "**no**"} for goal in wanted)
