"""`elasticjob scale`, `suspend`, `resume`, `restart`: one change of one job, said back in one line."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage
from elasticjob_cli.connection import add_cluster_options, add_job, get_job
from elasticjob_cli.output import as_json, as_yaml, of_server

if TYPE_CHECKING:
    from elasticjob import ElasticJob

Change = Callable[["ElasticJob", argparse.Namespace], str]


def _runner(change: Change) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        job = get_job(arguments)
        said = change(job, arguments)
        if arguments.output:
            print((as_json if arguments.output == "json" else as_yaml)(of_server(job.manifest)), end="")
        else:
            print(f"{job.namespace}/{job.name}: {said}")
        return ExitCode.OK

    return run


def _scale(job: "ElasticJob", arguments: argparse.Namespace) -> str:
    before = job.spec.replicas
    job.scale(arguments.replicas)
    return f"replicas {before} -> {arguments.replicas}" if before != arguments.replicas else f"has {before} already"


def _suspend(job: "ElasticJob", _: argparse.Namespace) -> str:
    if job.spec.suspend:
        return "is suspended already"
    job.suspend()
    seconds = job.spec.graceful_shutdown.seconds
    return f"is being suspended: workers are notified and get {seconds:g} s, then the pods go; resume lets it go on"


def _resume(job: "ElasticJob", _: argparse.Namespace) -> str:
    if not job.spec.suspend:
        return "is not suspended"
    job.resume()
    return "goes on"


def _restart(job: "ElasticJob", _: argparse.Namespace) -> str:
    job.restart()
    return "all workers are restarted in a new round; nothing is charged"


def _without_options(parser: argparse.ArgumentParser) -> None:
    add_job(parser)
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="print the job as it is then")
    add_cluster_options(parser)


def _with_replicas(parser: argparse.ArgumentParser) -> None:
    _without_options(parser)
    parser.add_argument("--replicas", type=_count, required=True, metavar="N", help="nodes wanted")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1; suspend gives all pods back")
    return int(text)


def _command(description: str, change: Change, examples: tuple[tuple[str, str], ...]) -> CommandPage:
    return CommandPage(description=description, examples=examples, configure=_without_options, run=_runner(change))


PAGES: Mapping[str, CommandPage] = {
    "scale": CommandPage(
        description=(
            "Change the number of nodes while the job runs: one new round, and those who stay keep the order of their\n"
            "ranks. Within minReplicas and maxReplicas."
        ),
        examples=(("scale digits --replicas 8", ""), ("scale digits --replicas 2 -n team", "")),
        configure=_with_replicas,
        run=_runner(_scale),
    ),
    "suspend": _command(
        "Stop the workers in order and give the pods back. Counters and history stay; `resume` goes on.",
        _suspend,
        (("suspend digits", ""),),
    ),
    "resume": _command("Let a suspended job go on, with new pods.", _resume, (("resume digits", ""),)),
    "restart": _command(
        "Restart all workers once, as for a planned change: they may save first. Pods stay, nothing is charged.",
        _restart,
        (("restart digits", ""),),
    ),
}
