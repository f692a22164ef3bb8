"""Logs of a run on this machine: the files that its agents kept, for each round and rank.

The only worker of a node writes to its pod's own output, as it does without an agent: then that is the file, and the
rounds of the pod are not told apart in it.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elasticjob.lenient_codec import read_known
from elasticjob_api.job import trainer_container
from elasticjob_api.spec import JobSpec
from elasticjob_cli.target import Target
from elasticjob_cli.views.log_lines import NoSuchRound, failed_place

_PLACE = re.compile(r".*/round_(\d+)/(\d+)/(stdout|stderr)\.log")

NO_RANK_FILES = "the only worker of a node writes to the log of its pod: these are its lines of all rounds"


@dataclass(frozen=True, slots=True, order=True)
class File:
    """What one worker wrote to one stream in one round."""

    round: int
    rank: int
    stream: str
    path: Path
    pod: str
    is_the_pods: bool = False
    """Of all rounds that the pod was in."""


def files(folder: Path, job: Mapping[str, Any]) -> list[File]:
    """All of a run."""
    found = []
    for path in folder.glob("pods/*/volumes/elasticjob-logs/**/*.log"):
        if place := _PLACE.fullmatch(str(path)):
            pod = path.relative_to(folder / "pods").parts[0]
            found.append(File(int(place[1]), int(place[2]), place[3], path, pod))
    kept = {(file.round, file.rank) for file in found if file.stream == "stdout"}
    unkept = [file for file in found if (file.round, file.rank) not in kept]
    return sorted([*found, *(_of_pod(folder, job, file) for file in unkept)])


def _of_pod(folder: Path, job: Mapping[str, Any], file: File) -> File:
    """The output of its pod, for a worker that has no file of its own for that."""
    container = trainer_container(read_known(JobSpec, job["spec"], "spec"))["name"]
    return replace(file, stream="stdout", path=folder / "logs" / file.pod / container / "stdout.log", is_the_pods=True)


def select_files(folder: Path, subject: Target, arguments: argparse.Namespace) -> list[File]:
    """Those that the options mean; raises NoSuchRound."""
    there = files(folder, subject.job)
    rounds = sorted({each.round for each in there})
    if not rounds:
        raise NoSuchRound(f"{folder}: has no logs of workers; what pods wrote is in {folder / 'logs'}")
    ranks, number = set(arguments.rank), arguments.round
    if arguments.failed:
        rank, number, _, _ = failed_place(subject.job)
        ranks = {rank}
    elif arguments.previous:
        number = rounds[-2] if len(rounds) > 1 else -1
    number = rounds[-1] if number is None else number
    found = [each for each in there if each.round == number and (not ranks or each.rank in ranks)]
    if not found:
        known = f"rounds {', '.join(map(str, rounds))}; ranks 0 to {max(each.rank for each in there)}"
        raise NoSuchRound(f"{folder}: has no such log; there are {known}")
    return found


def lines(file: File, tail: int | None) -> Iterator[str]:
    """Its lines, or the last of them."""
    text = file.path.read_text(encoding="utf-8", errors="replace").splitlines()
    yield from text if tail is None else text[len(text) - min(tail, len(text)) :]
