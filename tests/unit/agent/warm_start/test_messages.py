"""The greeting of an interpreter and the report of a zygote: anything else in their places is neither."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elasticjob_agent.warm_start.greeting import MAX_BYTES, parse_greeting
from elasticjob_agent.warm_start.preload_report import parse_report

_GREETING = {
    "pid": 7,
    "executable": "/usr/bin/python3.11",
    "cmdline": ["python", "train.py"],
    "argv0": "train.py",
    "version": [3, 11, 7],
    "implementation": "cpython",
    "libc": "glibc 2.36",
    "gil": True,
    "debug_build": False,
    "tracer": False,
    "inspect": False,
    "safe_path": False,
    "usercustomize": False,
    "import_log": False,
    "debug_allocator": False,
}
_REPORT = {
    "seconds": 1.5,
    "modules": 3,
    "top_level": ["numpy"],
    "brought_by": {"numpy": "torch"},
    "reads": {"lightning": ["RANK"]},
    "writes": [],
    "temporary": {"cache.folder": "a temporary file"},
    "side_effects": [["grpc", "thread", "python"]],
    "outside": [],
    "unsafe": {},
    "different": [],
    "folder_changed": False,
    "tracer": False,
}


def test_a_greeting_has_all_facts() -> None:
    greeting = parse_greeting(ascii(_GREETING).encode())
    assert greeting is not None
    assert (greeting.pid, greeting.cmdline, greeting.version) == (7, ("python", "train.py"), (3, 11, 7))


@pytest.mark.parametrize("name", _GREETING)
def test_a_greeting_without_a_fact_is_none(name: str) -> None:
    assert parse_greeting(ascii({key: value for key, value in _GREETING.items() if key != name}).encode()) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pid", "1e999"),
        ("version", f"[{'9' * 5000}, 1, 1]"),
        ("version", f"[{'3, ' * 9000}]"),
        ("version", "[3, -1, 0]"),
    ],
)
def test_a_number_that_is_none_makes_no_greeting(name: str, value: str) -> None:
    line = ascii({**_GREETING, name: "here"}).replace("'here'", value)
    assert parse_greeting(line.encode()) is None


def test_a_long_line_is_no_greeting() -> None:
    assert parse_greeting(ascii({**_GREETING, "more": "x" * MAX_BYTES}).encode()) is None


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.binary())
def test_any_bytes_are_a_greeting_or_none(line: bytes) -> None:
    assert parse_greeting(line) is None


def test_a_report_has_all_facts() -> None:
    report = parse_report(json.dumps(_REPORT).encode())
    assert report is not None
    assert (report.top_level, report.reads) == (frozenset({"numpy"}), {"lightning": ("RANK",)})
    assert report.side_effects == (("grpc", "thread", "python"),)


@pytest.mark.parametrize("name", [name for name in _REPORT if name != "brought_by"])
def test_a_report_without_a_fact_is_none(name: str) -> None:
    assert parse_report(json.dumps({key: value for key, value in _REPORT.items() if key != name}).encode()) is None


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.binary())
def test_any_bytes_are_a_report_or_none(data: bytes) -> None:
    assert parse_report(data) is None


@pytest.mark.parametrize("value", [None, 1, "text", [1], {"a": 1}])
@pytest.mark.parametrize("name", _REPORT)
def test_a_value_of_another_kind_raises_nothing(name: str, value: object) -> None:
    report = parse_report(json.dumps({**_REPORT, name: value}).encode())
    assert report is None or report.modules >= 0


def test_the_path_of_a_changed_file_can_be_written_to_a_log() -> None:
    report = parse_report(json.dumps({**_REPORT, "changed": "/a\udcff\ud800"}).encode())
    assert report is not None
    assert report.changed == "/a\\udcff\\ud800"
