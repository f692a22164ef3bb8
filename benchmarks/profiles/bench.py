"""Profiles of processor time for the goals: a part of `make bench`, with a table for each subject on its page.

The subjects are the members of a crowd and the operator at rest, both by layer. The others are an agent's start by
package, and an idle agent by thread. Beside the samples it writes every stack (`*.collapsed`), a line each with its
microseconds, for flame graphs.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.profiles import agent, crowd, operator, startup
from benchmarks.profiles.table import collapsed
from benchmarks.report import etcds, page, results
from benchmarks.report.results import Report

MEMBERS, START, AGENT, OPERATOR = page.PROFILES


def measure(options: argparse.Namespace, report: Report) -> Mapping[str, Mapping[str, int]]:
    """Take all profiles, each into the report's notes; return the stacks of those that have some."""
    stacks: dict[str, Mapping[str, int]] = {}
    with results.attempt(report, MEMBERS):
        report.notes[MEMBERS], stacks["members"] = crowd.measure(options.nodes)
    with results.attempt(report, START):
        report.notes[START] = startup.measure(options.starts)
    with results.attempt(report, AGENT):
        report.notes[AGENT] = agent.measure(options.idle_seconds)
    with results.attempt(report, OPERATOR), tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as folder:
        found = operator.measure(Path(folder), options.jobs, options.steady_seconds)
        report.notes[OPERATOR], stacks["operator"] = found
    return stacks


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--steady-seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, help="keep the tables there, and the stacks beside it")
    options = parser.parse_args()
    report = results.begin(etcd=etcds.version())
    with results.keep(report, options.json):
        stacks = measure(options, report)
        when = f"measured {report.began}, load {report.machine['load']}"
        report.notes = {title: f"{text}\n{when}" for title, text in report.notes.items()}
        for name, counts in stacks.items():
            if options.json:
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.with_name(f"{name}.collapsed").write_text(collapsed(counts))
        print(*(f"{title}\n\n{text}\n" for title, text in report.notes.items()), sep="\n")


if __name__ == "__main__":
    main()
