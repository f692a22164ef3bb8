#!/usr/bin/env python3
"""metrics-reference [--check] — write docs/reference/metrics.md from the operator's metrics; with --check only compare.

Every sentence of the page is the help text of a metric, so that `# HELP` and the page cannot disagree.
"""

import argparse
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from elasticjob_api.rendezvous_state import Cause
from elasticjob_operator.metrics.job_health import AgentHealth, KeepHealth, TimeBucket
from elasticjob_operator.metrics.prometheus import COLD, WARM, PrometheusRecorder
from elasticjob_operator.policy.lifecycle.installation import UnmanagedReason

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "metrics.md"
HEAD = """# Metrics

<!-- Written by hack/reference/metrics.py from the operator's code: change that instead, and run it again. -->

The metrics that the operator serves at `/metrics`. Their use: [metrics.md](../metrics.md).

| Name | Type | Labels | Meaning |
| --- | --- | --- | --- |"""


def page() -> str:
    """Return the whole page."""
    meter = PrometheusRecorder()
    meter.serve_state(dict, lambda: 0)
    return "\n".join([HEAD, *_rows(meter), "", *_values()]) + "\n"


def _rows(meter: PrometheusRecorder) -> Iterator[str]:
    helps: dict[str, str] = {}
    for line in meter.text().decode().splitlines():
        match line.split(maxsplit=3):
            case ["#", "HELP", name, text]:
                helps[name] = text
            case ["#", "TYPE", name, kind] if name in meter.labels:
                labels = ", ".join(f"`{label}`" for label in meter.labels[name]) or "–"
                yield f"| `{name}` | {kind} | {labels} | {helps[name]} |"


def _values() -> Iterator[str]:
    yield from ("## Values of labels", "", "| Label | Values |", "| --- | --- |")
    steps = ("detect", "stop", "agree", "start")
    known: dict[str, tuple[str, ...]] = {
        "cause": tuple(cause.value for cause in Cause),
        "step": steps,
        "state": _all(TimeBucket),
        "health": _all(AgentHealth),
        "keep": _all(KeepHealth),
        "code": ("ok", "unreadable"),
        "start": (WARM, COLD),
    }
    for label, values in known.items():
        yield f"| `{label}` | {', '.join(f'`{value}`' for value in values)} |"
    unmanaged = ", ".join(f"`{reason}`" for reason in _all(UnmanagedReason))
    failed = "of `elasticjob_failed_total`: that of the condition Failed"
    yield f"| `reason` | of `elasticjob_left_alone`: {unmanaged}; {failed} |"
    yield "| `namespace` | the jobs' |"


def _all(of: type[StrEnum]) -> tuple[str, ...]:
    return tuple(value.value for value in of)


def main() -> int:
    """Write, or compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is out of date")
    if not parser.parse_args().check:
        PAGE.write_text(page())
        return 0
    if PAGE.read_text() == page():
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of date: run make reference", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
