"""A report keeps every sample, also those that never came, and shows p50 and p99 that were measured."""

import math
from pathlib import Path

import pytest

from benchmarks.report import results
from benchmarks.report.results import Report, Series


def of(*samples: float) -> Series:
    return Series("recovery", "agent joins", results.OURS, samples, target=0.3)


def test_a_report_that_was_saved_is_loaded_as_it_was(tmp_path: Path) -> None:
    report = Report(
        "now", {"python": "3"}, [of(0.25, math.inf), Series("rendezvous", "first", "floor", (1.0,), size=64)]
    )
    report.save(tmp_path / "new" / "report.json")
    assert results.load(tmp_path / "new" / "report.json") == report


def test_p99_of_a_few_samples_is_the_worst_and_p50_is_one_of_them() -> None:
    series = of(5.0, 1.0, 2.0, 4.0)
    assert (series.p50, series.p99) == (4.0, 5.0)


def test_p99_of_two_hundred_samples_leaves_out_the_worst_one() -> None:
    assert of(*map(float, range(200))).p99 == 198.0


def test_half_of_the_repetitions_that_never_ended_make_the_median_endless() -> None:
    assert results.format_value(of(1.0, math.inf).p50, "s") == "never"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.1234, "s", "123 ms"),
        (0.0000421, "s", "42.1 µs"),
        (12.345, "s", "12.3 s"),
        (61.2, "MB", "61.2 MB"),
        (4, "", "4"),
    ],
)
def test_numbers_are_shown_with_three_digits_and_a_unit_that_suits(value: float, unit: str, text: str) -> None:
    assert results.format_value(value, unit) == text


def test_a_table_has_a_row_for_each_series_with_its_number_of_samples() -> None:
    lines = results.table([of(0.1, 0.2, 0.3), Series("rendezvous", "first", "floor", (1.0,), size=64)]).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["agent", "joins", "ours", "3", "200", "ms", "300", "ms", "300", "ms"],
        ["first,", "64", "nodes", "floor", "1", "1", "s", "1", "s"],
    ]


def test_a_report_has_the_processor_the_load_and_the_versions_of_this_machine() -> None:
    assert {"processor", "system", "load", "python", "grpcio"} <= set(results.machine())
