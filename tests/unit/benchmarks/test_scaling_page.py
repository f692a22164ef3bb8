"""docs/scaling.md: a run writes its tables anew and leaves every other line as it was."""

from pathlib import Path

from benchmarks.report import scaling_page
from benchmarks.report.results import FLOOR, OURS, Series

PAGE = (Path(__file__).parents[3] / "docs" / "scaling.md").read_text()
PLANNED = [Series("planning", "a closer plans", OURS, (nodes / 1e5,), size=nodes) for nodes in (100, 1000, 10_000)]


def test_a_table_is_replaced_and_the_text_around_it_remains() -> None:
    text = "above\n<!-- make bench: planning -->\n| old |\n<!-- end -->\nbelow\n"
    lines = scaling_page.renewed(text, PLANNED).splitlines()
    assert (lines[0], lines[-1]) == ("above", "below")
    assert "| a closer plans | 1 ms | 10 ms | 100 ms | N^1.00 |  |" in lines
    assert "| old |" not in lines


def test_a_table_of_what_was_not_measured_stays() -> None:
    assert scaling_page.renewed(PAGE, []) == PAGE


def test_the_floor_is_that_of_the_largest_size() -> None:
    floors = [Series("planning", "a closer plans", FLOOR, (nodes / 1e6,), size=nodes) for nodes in (100, 10_000)]
    assert scaling_page.measured([*PLANNED, *floors], "planning")[-1].endswith("| 10 ms |")


def test_the_page_has_every_table() -> None:
    assert PAGE.count("<!-- end -->") == 4
    assert scaling_page.renewed(PAGE, PLANNED) != PAGE
