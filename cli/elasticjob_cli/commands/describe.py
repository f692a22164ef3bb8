"""`elasticjob describe`: a job in sentences, or the data behind them."""

import argparse
import dataclasses
import time

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, add_job
from elasticjob_cli.command import PROGRAM, CommandPage
from elasticjob_cli.target import find, run_folder
from elasticjob_cli.terminal import is_terminal, printable, show, width
from elasticjob_cli.views.job_text import describe
from elasticjob_cli.views.text import wrap_hanging
from elasticjob_cli.yaml_json import as_json, as_yaml, of_server


def _configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser, recorded=True)
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="print the job and its events as data instead")
    add_cluster_options(parser)


def _run(arguments: argparse.Namespace) -> int:
    target = find(arguments)
    if arguments.output:
        facts = {"job": of_server(target.job), "events": [dataclasses.asdict(each) for each in target.history_entries]}
        print((as_json if arguments.output == "json" else as_yaml)(facts), end="")
    else:
        folder = arguments.job if run_folder(arguments.job) is not None else ""
        for line in describe(target.job, target.history_entries, now_s=time.time(), command=PROGRAM, folder=folder):
            show("\n".join(wrap_hanging(printable(line), width()) if is_terminal() else [line]))
    return ExitCode.OK


PAGES = {
    "describe": CommandPage(
        description="Describe a job in sentences: what it does, what happened to it and why, and what to do about it.",
        examples=(
            ("describe digits", ""),
            ("describe digits -n team -o json", "the same as data, for programs"),
            ("describe runs/digits-20260101T120000Z-1a2b", "a run on this machine"),
        ),
        configure=_configure,
        run=_run,
    )
}
