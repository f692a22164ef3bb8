"""`elasticjob get`: jobs as a table, as names or as full objects."""

import argparse
import time
from typing import Any

from elasticjob_api import constants
from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, connect, get_job
from elasticjob_cli.command import CommandPage
from elasticjob_cli.target import recorded, run_folder
from elasticjob_cli.terminal import show
from elasticjob_cli.views.columns import table
from elasticjob_cli.yaml_json import as_json, as_yaml, of_server


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="name of a job, or folder of a run (default: all jobs)")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="list the jobs of all namespaces")
    parser.add_argument(
        "-l", "--selector", default="", metavar="LABELS", help="only jobs with these labels, for example team=a"
    )
    parser.add_argument(
        "-o", "--output", choices=("json", "yaml", "wide", "name"), help="output format (default: a short table)"
    )
    add_cluster_options(parser)


def _run(arguments: argparse.Namespace) -> int:
    folder = run_folder(arguments.job) if arguments.job else None
    if folder is not None:
        jobs = [dict(recorded(folder).job)]
    elif arguments.job:
        jobs = [of_server(get_job(arguments).manifest)]
    else:
        jobs = _list(arguments)
    _show(jobs, arguments)
    return ExitCode.OK


def _list(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from elasticjob import ALL_NAMESPACES, ElasticJob  # noqa: PLC0415  # see `cluster_options`

    labels = dict(word.partition("=")[::2] for word in arguments.selector.split(",") if word)
    namespace = ALL_NAMESPACES if arguments.all_namespaces else None
    found = ElasticJob.list(namespace=namespace, labels=labels, cluster=connect(arguments))
    return [of_server(job.manifest) for job in found]


def _show(jobs: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    whole: dict[str, Any] = jobs[0] if arguments.job else {"apiVersion": "v1", "kind": "List", "items": jobs}
    if arguments.output in {"json", "yaml"}:
        print((as_json if arguments.output == "json" else as_yaml)(whole), end="")
    elif arguments.output == "name":
        for job in jobs:
            show(f"{constants.PLURAL}.{constants.GROUP}/{job['metadata']['name']}")
    elif not jobs:
        where = "any namespace" if arguments.all_namespaces else "this namespace; -A lists the jobs of all namespaces"
        print(f"no jobs in {where}")
    else:
        wide = arguments.output == "wide"
        show("\n".join(table(jobs, now_s=time.time(), wide=wide, namespaces=arguments.all_namespaces)))


PAGES = {
    "get": CommandPage(
        description="List the jobs of a namespace, or show one.",
        examples=(
            ("get", "the jobs of the context's namespace"),
            ("get -A -o wide", "all namespaces, with round, progress, reason and message"),
            ("get digits -o yaml", "the full object of one job"),
            ("get runs/digits-20260101T120000Z-1a2b", "a run on this machine"),
        ),
        configure=_configure,
        run=_run,
    )
}
