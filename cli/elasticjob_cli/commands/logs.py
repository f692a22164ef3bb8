"""`elasticjob logs`: the output of workers, from the API server or from the folder of a run."""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, add_job, connect, get_job
from elasticjob_cli.command import CommandPage
from elasticjob_cli.errors import CliError
from elasticjob_cli.target import recorded, run_folder
from elasticjob_cli.terminal import has_colour
from elasticjob_cli.views.job_history import job_history
from elasticjob_cli.views.last_failure import failure_text
from elasticjob_cli.views.log_lines import NoSuchRound, last, require_failure, shown, span_of
from elasticjob_cli.views.text import parse_time

if TYPE_CHECKING:
    from elasticjob import Cluster, ElasticJob, LogLine

_NOTES = """\
--round and --previous select lines by their time. They need logs on the nodes that go back to that round.
The log of a pod is deleted with the pod; status.lastFailure of the job keeps the message of the last failure.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser, recorded=True)
    parser.add_argument(
        "-r", "--rank", type=_number, action="append", default=[], metavar="N", help="only this rank; repeatable"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--round", type=_number, metavar="N", help="only the lines of this round")
    which.add_argument("-p", "--previous", action="store_true", help="only the lines of the round before the last")
    which.add_argument("--failed", action="store_true", help="only the worker that failed last, in its round")
    parser.add_argument("-f", "--follow", action="store_true", help="print also new lines, until the job has ended")
    parser.add_argument("--tail", type=_number, metavar="N", help="only the last N lines of each rank or pod")
    parser.add_argument("--timestamps", action="store_true", help="print the time at which the node received each line")
    add_cluster_options(parser)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 0 or more")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.follow and (arguments.round is not None or arguments.previous or arguments.failed):
        raise _Contradiction("-f follows the newest output; leave out --round, --previous and --failed")
    if (folder := run_folder(arguments.job)) is not None:
        return _of_run(folder, arguments)
    cluster = connect(arguments)
    job = get_job(arguments, cluster)
    alone, colour = len(arguments.rank) == 1 or arguments.failed, has_colour()
    for line in _lines(cluster, job, arguments):
        at = line.time if arguments.timestamps else ""
        print(shown(line.rank, line.pod, line.text, alone=alone, time=at, colour=colour), flush=arguments.follow)
    if not arguments.follow:
        return ExitCode.OK
    return ExitCode.OK if job.refresh().phase == "Succeeded" else ExitCode.FAILED


class _Contradiction(CliError):
    """The command line has options that exclude each other."""

    code = ExitCode.USAGE


def _lines(cluster: "Cluster", job: "ElasticJob", arguments: argparse.Namespace) -> Iterator["LogLine"]:
    if arguments.failed:
        yield from _of_failed(cluster, job, arguments)
        return
    begin_s, end_s = float("-inf"), float("inf")
    if arguments.previous or arguments.round is not None:
        history = job_history(job.manifest, (), now_s=time.time())
        begin_s, end_s = span_of(history, arguments.round)
    ranks: set[int] = set(arguments.rank)
    only = arguments.rank[0] if len(ranks) == 1 else None
    chosen = arguments.previous or arguments.round is not None or len(ranks) > 1
    cut_here = chosen and not arguments.follow  # a node can select neither ranks nor rounds
    lines = (
        line
        for line in job.logs(rank=only, follow=arguments.follow, tail=None if cut_here else arguments.tail)
        if (not ranks or line.rank in ranks) and begin_s <= (_time_of(line) or begin_s) < end_s
    )
    yield from last(lines, arguments.tail, by_rank=bool(ranks)) if cut_here else lines


def _time_of(line: "LogLine") -> float | None:
    whole, dot, rest = line.time.rstrip("Z").partition(".")
    return parse_time(f"{whole}{dot}{rest[:6]}Z" if dot else line.time)  # the time of a node has nanoseconds


def _of_failed(cluster: "Cluster", job: "ElasticJob", arguments: argparse.Namespace) -> Iterator["LogLine"]:
    from elasticjob.errors import NotFound, Rejected  # noqa: PLC0415  # see `cluster_options`
    from elasticjob.logs import Source, pod_lines  # noqa: PLC0415  # the same
    from elasticjob.rank_placement import ranks_at_failure  # noqa: PLC0415  # the same
    from elasticjob_api.job import trainer_container  # noqa: PLC0415  # the same

    failure = require_failure(job.manifest)
    history = job_history(job.manifest, (), now_s=time.time())
    known = any(each.number == failure.round for each in history.rounds)
    begin_s, end_s = span_of(history, failure.round) if known else (float("-inf"), float("inf"))
    source = Source(cluster, job.namespace, str(trainer_container(job.spec)["name"]))
    ranks = ranks_at_failure(job.status, failure)
    try:
        with pod_lines(source, failure.pod_name, lambda: ranks) as of_pod:
            ours = (line for line in of_pod if line.rank in {failure.rank, None})
            yield from last(
                (line for line in ours if begin_s <= (_time_of(line) or begin_s) < end_s), arguments.tail, by_rank=False
            )
    except (NotFound, Rejected) as error:
        gone = "was deleted, and its log with it" if isinstance(error, NotFound) else f"has no log now: {error}"
        text = f"the pod {failure.pod_name} {gone}; the job's status has: {failure_text(failure)}"
        raise NoSuchRound(text) from error


def _of_run(folder: Path, arguments: argparse.Namespace) -> int:
    from elasticjob_cli.local import logs  # noqa: PLC0415  # only the folder of a run needs it

    if arguments.follow:
        raise _Contradiction(
            f"{folder} is the folder of a run, whose new lines `elasticjob run` prints itself; leave out -f"
        )
    found = logs.select_files(folder, recorded(folder), arguments)
    alone = len({each.rank for each in found}) == 1
    colour = has_colour()
    for file in found:
        for text in logs.lines(file, arguments.tail):
            print(shown(file.rank, file.pod, text, alone=alone, time="", colour=colour))
    if any(file.is_the_pods for file in found) and (arguments.round is not None or arguments.previous):
        print("elasticjob logs: " + logs.NO_RANK_FILES, file=sys.stderr)
    return ExitCode.OK


PAGES = {
    "logs": CommandPage(
        description=(
            "Print the output of workers: of all ranks in order of time, of one rank, of an earlier round, or of the\n"
            "worker that failed. A line of the agent itself begins with the pod's name."
        ),
        examples=(
            ("logs digits -r 0 -f", "rank 0, on any node, until the job has ended"),
            ("logs digits --failed", "the output of the worker that is the root cause"),
            ("logs digits --round 2 -r 3", "rank 3 in round 2"),
            ("logs digits --tail 20", "the last 20 lines of every pod"),
            ("logs runs/digits-20260101T120000Z-1a2b --previous", "a run on this machine, the round before the last"),
        ),
        notes=_NOTES,
        configure=_configure,
        run=_run,
    )
}
