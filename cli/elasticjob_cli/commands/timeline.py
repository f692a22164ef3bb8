"""`elasticjob timeline`: the history of a job as text, picture or data."""

import argparse
import dataclasses
import time

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, add_job
from elasticjob_cli.command import CommandPage
from elasticjob_cli.target import find
from elasticjob_cli.terminal import show, width
from elasticjob_cli.views.job_history import JobHistory, job_history
from elasticjob_cli.views.svg import as_svg
from elasticjob_cli.views.timeline_svg import timeline_picture
from elasticjob_cli.views.timeline_text import timeline
from elasticjob_cli.yaml_json import as_json, as_yaml

_ALL_ROUNDS = 0


def _configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser, recorded=True)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--svg", action="store_true", help="print a picture")
    form.add_argument(
        "--trace",
        type=_round,
        nargs="?",
        const=_ALL_ROUNDS,
        metavar="ROUND",
        help="print the microseconds of each recovery, or each point of one round; JOB is the folder of a run",
    )
    form.add_argument("-o", "--output", choices=("json", "yaml"), help="print rounds and events as data, for programs")
    add_cluster_options(parser)


def _round(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a round")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.trace is not None:
        from elasticjob_cli.traces import read_trace  # noqa: PLC0415  # only --trace needs it

        print(read_trace(arguments.job, arguments.trace or None))
        return ExitCode.OK
    target = find(arguments)
    history = job_history(target.job, target.history_entries, now_s=time.time())
    if arguments.svg:
        print(as_svg(timeline_picture(history)), end="")
    elif arguments.output:
        print(_data(history, arguments.output), end="")
    else:
        show("\n".join(timeline(history, width=width())))
    return ExitCode.OK


def _data(history: JobHistory, form: str) -> str:
    facts = {**dataclasses.asdict(history), "gaps_s": history.gaps(), "in_rounds_s": history.in_rounds_s}
    return (as_json if form == "json" else as_yaml)(_plain(facts))


def _plain(value: object) -> object:
    """Return the value with a list for each tuple."""
    # YAML has no tuples.
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


PAGES = {
    "timeline": CommandPage(
        description=(
            "Show the workers of each round, why the round began, failures, and the gaps without training.\n"
            "JOB is a job on a cluster, or the folder of a run on this machine."
        ),
        examples=(
            ("timeline digits", "as text"),
            ("timeline digits --svg > digits.svg", "a picture for a browser"),
            ("timeline runs/digits-20260101T120000Z-1a2b --trace 2", "the recovery of round 2 in microseconds"),
            ("timeline digits -o json | jq .gaps_s", "for programs"),
        ),
        configure=_configure,
        run=_run,
    )
}
