"""`elasticjob keep`: which step of a job is safe in memory and on a disk, and what each node holds."""

import argparse
import time

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, add_job
from elasticjob_cli.command import CommandPage
from elasticjob_cli.target import find
from elasticjob_cli.terminal import show
from elasticjob_cli.views.keep_text import keep_sentences, keep_table
from elasticjob_cli.yaml_json import as_json, as_yaml


def _configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser, recorded=True)
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="print the same as data, for programs")
    add_cluster_options(parser)


def _run(arguments: argparse.Namespace) -> int:
    job = find(arguments).job
    spec, status = job.get("spec") or {}, job.get("status") or {}
    nodes = status.get("nodes") or ()
    if arguments.output:
        held = [{"name": each.get("name"), "podName": each.get("podName"), "keep": each.get("keep")} for each in nodes]
        facts = {"spec": spec.get("keep"), "keep": status.get("keep"), "nodes": held}
        print((as_json if arguments.output == "json" else as_yaml)(facts), end="")
        return ExitCode.OK
    lines = [*keep_sentences(spec, status, now_s=time.time()), *keep_table(status)]
    show("\n".join(lines or ["The job keeps no steps in memory: it has no spec.keep."]))
    return ExitCode.OK


PAGES = {
    "keep": CommandPage(
        description=(
            "Show which step of a job with `spec.keep` is committed, and what each node holds in memory.\n"
            "With `spec.keep.persistTo` it also shows the newest step that is whole there.\n"
            "COPIES is the number of other nodes that hold the node's own part of that step.\n"
            "SKIPPED counts parts that were dropped for newer ones before copies of them were made.\n"
            "That is usual where steps come faster than their copies."
        ),
        examples=(
            ("keep digits", ""),
            ("keep digits -o json", "for programs"),
            ("keep runs/digits-20260101T120000Z-1a2b", "a run on this machine"),
        ),
        configure=_configure,
        run=_run,
    )
}
