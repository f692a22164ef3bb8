"""Parsers for the values of `elasticjob-agent`'s options; each raises UsageError with one sentence for a wrong value.

The options are in `options.py`, the warnings about options without an effect in `ignored_options.py`. This module
reads one thing from the machine: the number of its processors and accelerators.
"""

import argparse
import logging
import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from elasticjob_agent.cli.options import OPTIONS
from elasticjob_agent.errors import UsageError
from elasticjob_agent.host import accelerators
from elasticjob_agent.workers.output import StreamSelection
from elasticjob_api import constants
from elasticjob_api.constants import WarmStart

_MAX_NPROC = 1024
"""The same limit as spec.nprocPerNode in the CRD."""
RUN_PATH = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
_BOTH_STREAMS = 3

log = logging.getLogger(__name__)


def parse_nproc(text: str, environment: Mapping[str, str], system: Path = accelerators.ROOT) -> int:
    """Return a number of workers: as given, or as many as there are of `cpu` (cores), `gpu` or `xpu`.

    `auto` counts GPUs; if there is none XPUs; if there is none cores.
    """
    cores = len(os.sched_getaffinity(0))
    found: dict[str, Callable[[], int]] = {
        "cpu": lambda: cores,
        "gpu": lambda: accelerators.count_gpus(environment, system),
        "xpu": lambda: accelerators.count_xpus(environment, system),
        "auto": lambda: (
            accelerators.count_gpus(environment, system) or accelerators.count_xpus(environment, system) or cores
        ),
    }
    if text in found:
        count = found[text]()
        if not count:
            raise UsageError(f"--nproc-per-node {text}: there is no {text.upper()} here")
        return count
    if not text.isdecimal() or len(text) > len(str(_MAX_NPROC)) or not 1 <= int(text) <= _MAX_NPROC:
        raise UsageError(
            f"--nproc-per-node {text:.20}: it must be a number from 1 to {_MAX_NPROC}, auto, gpu, cpu or xpu"
        )
    return int(text)


def parse_warm_start(option: str | None, environment: Mapping[str, str]) -> WarmStart:
    """Return the value of the option, else of the variable, else Off."""
    text = option or environment.get(constants.ENV_WARM_START) or WarmStart.OFF
    try:
        return WarmStart(text)
    except ValueError:  # an operator of a newer version may know more values
        log.warning("%s is %.20s; it must be Auto or Off: workers are not started warm", constants.ENV_WARM_START, text)
        return WarmStart.OFF


def parse_positive_int(option: str, text: str) -> int:
    """Return a whole number from 0."""
    if not text.isdecimal():
        raise UsageError(f"--{option} {text}: it must be a whole number from 0")
    return int(text)


def parse_port(option: str, text: str) -> int:
    """Return a TCP port, from 1."""
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise UsageError(f"--{option} {text}: it must be a port, 1 to 65535")
    return int(text)


def parse_interval(option: str, text: str) -> float:
    """Return a number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--{option} {text}: it must be a number of seconds above 0")
    return seconds


def parse_run_id(text: str) -> str:
    """Return the name of a run; it becomes part of a key, so it has no slash."""
    if "/" in text or not text:
        raise UsageError(f"--rdzv-id {text!r}: it must be a name without a slash")
    return text


def parse_streams(option: str, text: str) -> StreamSelection:
    """Return the selection of `3`, or of `0:3,1:1` by local rank."""
    if text.isdecimal() and int(text) <= _BOTH_STREAMS:
        return StreamSelection(all_ranks=int(text))
    by_rank = {}
    for word in text.split(","):
        rank, colon, value = word.partition(":")
        if not (colon and rank.isdecimal() and value.isdecimal() and int(value) <= _BOTH_STREAMS):
            raise UsageError(f"--{option} {text}: it must be 0, 1, 2 or 3, or RANK:VALUE,… for example 0:3,1:1")
        by_rank[int(rank)] = int(value)
    return StreamSelection(by_rank=by_rank)


def parse_ranks(option: str, text: str) -> frozenset[int] | None:
    """Return the ranks of `0,2`; None if none is given, which means all."""
    words = [word.strip() for word in text.split(",")] if text else []
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"--{option} {text}: it must be local ranks separated by commas, for example 0,2")
    return frozenset(map(int, words)) or None


def parse_list(text: str) -> tuple[str, ...]:
    """Return the words of a list separated by commas; a doubled comma is a comma in a word."""
    return tuple(word.replace("\0", ",") for word in text.replace(",,", "\0").split(",") if word)


def parse_signals(text: str) -> tuple[signal.Signals, ...]:
    """Return the signals of a list such as `SIGTERM,SIGUSR1`."""
    found = []
    for name in (word.strip() for word in text.split(",")):
        number = signal.Signals.__members__.get(name)
        if number is None or number in {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
            raise UsageError(f"--signals-to-handle {text}: {name or 'nothing'} is not a signal that can be handled")
        found.append(number)
    return tuple(found)


def check_choices(namespace: argparse.Namespace) -> None:
    """Raise UsageError if an option has none of its choices; argparse does not check values from the environment."""
    for option in OPTIONS:
        check_choice(option.name, namespace)


def check_choice(name: str, namespace: argparse.Namespace) -> None:
    """Raise UsageError if the option `name` has a value that is not one of its choices."""
    (option,) = (each for each in OPTIONS if each.name == name)
    value = getattr(namespace, option.dest)
    if option.choices and value is not None and value not in option.choices:
        raise UsageError(f"--{option.name} {value}: it must be one of {', '.join(option.choices)}")


def worker_argv(namespace: argparse.Namespace, python: str) -> tuple[str, ...]:
    """Return the command of each worker."""
    if not namespace.script:
        raise UsageError("the script is missing; see elasticjob-agent --help")
    rest: Sequence[str] = namespace.script_args
    if namespace.run_path:
        return (python, "-u", "-c", RUN_PATH, namespace.script, *rest)
    if namespace.module and namespace.no_python:
        raise UsageError("-m cannot be used together with --no-python; keep one of them")
    if namespace.no_python:
        return (namespace.script, *rest)
    return (python, "-u", *(["-m"] if namespace.module else []), namespace.script, *rest)
