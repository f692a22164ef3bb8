"""`elasticjob scale`, `suspend`, `resume`, `restart`: one change of one job, reported in one line."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, add_job, get_job
from elasticjob_cli.command import CommandPage
from elasticjob_cli.yaml_json import as_json, as_yaml, of_server

if TYPE_CHECKING:
    from elasticjob import ElasticJob

Change = Callable[["ElasticJob", argparse.Namespace], str]


def _runner(change: Change) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        job = get_job(arguments)
        result = change(job, arguments)
        if arguments.output:
            print((as_json if arguments.output == "json" else as_yaml)(of_server(job.manifest)), end="")
        else:
            print(f"{job.namespace}/{job.name}: {result}")
        return ExitCode.OK

    return run


def _scale(job: "ElasticJob", arguments: argparse.Namespace) -> str:
    before = job.spec.replicas
    job.scale(arguments.replicas)
    return (
        f"replicas {before} -> {arguments.replicas}"
        if before != arguments.replicas
        else f"is already at {before} replicas"
    )


def _suspend(job: "ElasticJob", _: argparse.Namespace) -> str:
    if job.spec.suspend:
        return "is suspended already"
    job.suspend()
    seconds = job.spec.graceful_shutdown.seconds
    stop = f"workers are notified and have {seconds:g} s, then the pods are deleted"
    return f"suspending: {stop}; `resume` continues the job"


def _resume(job: "ElasticJob", _: argparse.Namespace) -> str:
    if not job.spec.suspend:
        return "is not suspended"
    job.resume()
    return "resumed"


def _restart(job: "ElasticJob", _: argparse.Namespace) -> str:
    job.restart()
    return "all workers restart in a new round; it does not count toward maxRestarts"


def _without_options(parser: argparse.ArgumentParser) -> None:
    add_job(parser)
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="print the changed job")
    add_cluster_options(parser)


def _with_replicas(parser: argparse.ArgumentParser) -> None:
    _without_options(parser)
    parser.add_argument("--replicas", type=_count, required=True, metavar="N", help="new number of nodes")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a whole number, 1 or more; `elasticjob suspend` deletes all pods"
        )
    return int(text)


def _command(description: str, change: Change, examples: tuple[tuple[str, str], ...]) -> CommandPage:
    return CommandPage(description=description, examples=examples, configure=_without_options, run=_runner(change))


PAGES: Mapping[str, CommandPage] = {
    "scale": CommandPage(
        description=(
            "Change the number of nodes of a running job, within minReplicas and maxReplicas. A new round begins;\n"
            "nodes that remain keep the order of their ranks."
        ),
        examples=(("scale digits --replicas 8", ""), ("scale digits --replicas 2 -n team", "")),
        configure=_with_replicas,
        run=_runner(_scale),
    ),
    "suspend": _command(
        "Stop the workers gracefully and delete the pods. Counters and history remain; `resume` continues the job.",
        _suspend,
        (("suspend digits", ""),),
    ),
    "resume": _command("Continue a suspended job, with new pods.", _resume, (("resume digits", ""),)),
    "restart": _command(
        "Restart all workers once, gracefully: they may save first. Pods remain; it does not count toward maxRestarts.",
        _restart,
        (("restart digits", ""),),
    ),
}
