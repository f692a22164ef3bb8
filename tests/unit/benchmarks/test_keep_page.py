"""The page of Keep's numbers shows each sample's side, target and floor."""

from benchmarks.keep.page import page
from benchmarks.report.results import FLOOR, OURS, Report, Series

REPORT = Report("now", {"processor": "fast"})


def row(*, target: float | None, floor: bool = True) -> str:
    series = [Series("keep", "copied", OURS, (0.5, 0.6, 0.9), target=target)]
    series += [Series("keep", "copied", FLOOR, (0.25,))] if floor else []
    text = page(REPORT, [("Copies", "Without a limit.", series)])
    (found,) = (line for line in text.splitlines() if line.startswith("| copied"))
    return found


def test_a_row_has_the_median_the_worst_the_target_and_the_floor() -> None:
    assert row(target=0.9) == "| copied | 3 | 600 ms | 900 ms | 900 ms | yes | 250 ms |"


def test_a_target_that_is_not_met_is_marked() -> None:
    assert "| **no** |" in row(target=0.5)
    assert row(target=None, floor=False) == "| copied | 3 | 600 ms | 900 ms |  |  |  |"


def test_a_floor_without_a_side_of_ours_is_a_row_and_a_failed_part_is_named() -> None:
    report = Report("now", {}, failed=["memory: ended with 1"])
    text = page(report, [("Load", "torch alone.", [Series("keep", "torch.load", FLOOR, (0.1,))]), ("Empty", "", [])])
    assert "| torch.load | 1 | 100 ms |" in text
    assert "- `memory: ended with 1`" in text
    assert "## Empty" not in text
