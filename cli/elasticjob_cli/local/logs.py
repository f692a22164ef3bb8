"""Logs of a run on this machine: the files of its agents, for each round and rank.

The only worker of a node writes to the output of its pod. Then that output is the worker's log, and it does not
separate the rounds of the pod.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elasticjob.lenient_codec import read_known
from elasticjob_api import log_layout
from elasticjob_api.job import trainer_container
from elasticjob_api.spec import JobSpec
from elasticjob_cli.target import JobTarget
from elasticjob_cli.views.log_lines import NoSuchRound, require_failure

NO_RANK_FILES = "the only worker of a node writes to the log of its pod: these are its lines from all rounds"


@dataclass(frozen=True, slots=True, order=True)
class File:
    """The output of one worker to one stream in one round."""

    round: int
    rank: int
    stream: str
    path: Path
    pod: str
    is_the_pods: bool = False
    """Whether the file is the output of the pod, from all its rounds."""


def files(folder: Path, job: Mapping[str, Any]) -> list[File]:
    """Return all log files of a run."""
    found = [
        File(*parsed, path, pod=path.relative_to(folder / "pods").parts[0])
        for path in folder.glob("pods/*/volumes/elasticjob-logs/**/*.log")
        if (parsed := log_layout.parse_log_file(str(path))) is not None
    ]
    with_stdout = {(file.round, file.rank) for file in found if file.stream == "stdout"}
    without_stdout = [file for file in found if (file.round, file.rank) not in with_stdout]
    return sorted([*found, *(_of_pod(folder, job, file) for file in without_stdout)])


def _of_pod(folder: Path, job: Mapping[str, Any], file: File) -> File:
    """Return the output of the pod, for a worker without its own file."""
    container = trainer_container(read_known(JobSpec, job["spec"], "spec"))["name"]
    return replace(file, stream="stdout", path=folder / "logs" / file.pod / container / "stdout.log", is_the_pods=True)


def select_files(folder: Path, target: JobTarget, arguments: argparse.Namespace) -> list[File]:
    """Return the files that the options select; raise NoSuchRound if there are none."""
    available = files(folder, target.job)
    rounds = sorted({each.round for each in available})
    if not rounds:
        raise NoSuchRound(f"{folder}: has no logs of workers; the output of pods is in {folder / 'logs'}")
    ranks, number = set(arguments.rank), arguments.round
    if arguments.failed:
        failure = require_failure(target.job)
        ranks, number = {failure.rank}, failure.round
    elif arguments.previous:
        number = rounds[-2] if len(rounds) > 1 else -1
    number = rounds[-1] if number is None else number
    found = [each for each in available if each.round == number and (not ranks or each.rank in ranks)]
    if not found:
        known = f"rounds {', '.join(map(str, rounds))}; ranks 0 to {max(each.rank for each in available)}"
        raise NoSuchRound(f"{folder}: has no log of this round and rank; it has {known}")
    return found


def lines(file: File, tail: int | None) -> Iterator[str]:
    """Yield the lines of a file, or the last `tail` of them."""
    text = file.path.read_text(encoding="utf-8", errors="replace").splitlines()
    yield from text if tail is None else text[len(text) - min(tail, len(text)) :]
