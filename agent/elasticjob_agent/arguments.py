"""The options of `elasticjob-agent`: torchrun's names, meanings and defaults; every option also as PET_<NAME>.

Both spellings of torchrun are taken (`--nproc-per-node`, `--nproc_per_node`). What is not understood is refused
by one sentence, never ignored.
"""

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_DEVICES = Path("/dev")

EXAMPLES = """examples:
  elasticjob-agent --standalone --nproc-per-node 4 train.py --epochs 10
  elasticjob-agent --nnodes 2:4 --nproc-per-node 2 --rdzv-backend etcd --rdzv-endpoint etcd:2379 --rdzv-id job1 train.py
  elasticjob-agent --nnodes 2 --rdzv-endpoint etcd:2379 --rdzv-id job2 --no-python ./train.sh
"""


class UsageError(Exception):
    """The command line is wrong; the message says how."""


@dataclass(frozen=True, slots=True)
class NodeRange:
    """`--nnodes MIN[:MAX]`."""

    min: int
    max: int


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The parser; defaults come from PET_<NAME> in `environment`."""
    parser = argparse.ArgumentParser(
        prog="elasticjob-agent",
        description="Run workers on this node as part of an elastic job; a drop-in for torchrun.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--pod", action="store_true", help="take everything from the pod's environment (ELASTICJOB_*)")
    parser.add_argument("--standalone", action="store_true", help="one node, with an etcd of its own")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    _add_rendezvous(parser, environment)
    _add_workers(parser, environment)
    parser.add_argument("script", nargs="?", help="the script, run with this Python (see -m, --no-python)")
    parser.add_argument("script_args", nargs=argparse.REMAINDER, help="its arguments, verbatim")
    return parser


def _add_rendezvous(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("rendezvous")
    _option(group, environment, "nnodes", "1:1", "nodes wanted, MIN or MIN:MAX")
    _option(group, environment, "rdzv-backend", "etcd", "etcd: our rendezvous over etcd v3")
    _option(group, environment, "rdzv-endpoint", "", "HOST:PORT of etcd, several separated by commas")
    _option(group, environment, "rdzv-id", "none", "the same on all nodes of a job, another for each job")
    _option(group, environment, "rdzv-conf", "", "KEY=VALUE,…: join_timeout, last_call_timeout, keep_alive (seconds)")
    _option(group, environment, "node-rank", "", "this node's slot; unset: the lowest free one")
    _option(group, environment, "local-addr", "", "address that other nodes reach this one by; unset: found out")
    _option(group, environment, "role", "default", "role of this node's workers")


def _add_workers(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("workers")
    _option(group, environment, "nproc-per-node", "1", "workers on this node: a number, auto, cpu or gpu")
    _option(group, environment, "max-restarts", "0", "failures over the job's life that restart the workers")
    _option(group, environment, "monitor-interval", "0.1", "accepted for torchrun's sake; nothing here polls")
    _option(group, environment, "shutdown-timeout", "30", "seconds that workers get to stop for a planned change")
    _option(group, environment, "log-dir", "", "where logs of rounds and ranks are kept; unset: not kept")
    group.add_argument("-m", "--module", action="store_true", help="the script is a module, as in python -m")
    group.add_argument("--no-python", "--no_python", action="store_true", help="the script is any command")


def _option(
    group: "argparse._ArgumentGroup", environment: Mapping[str, str], name: str, default: str, text: str
) -> None:
    under = name.replace("-", "_")
    value = environment.get(f"PET_{under.upper()}", default)
    spellings = [f"--{name}"] if under == name else [f"--{name}", f"--{under}"]
    group.add_argument(*spellings, default=value, help=f"{text} [{default or 'unset'}]")


def parse_nnodes(text: str) -> NodeRange:
    """`2` or `2:4`."""
    low, _, high = text.partition(":")
    try:
        parsed = NodeRange(int(low), int(high or low))
    except ValueError:
        raise UsageError(f"--nnodes {text}: it must be MIN or MIN:MAX, as 2 or 2:4") from None
    if not 1 <= parsed.min <= parsed.max:
        raise UsageError(f"--nnodes {text}: MIN must be at least 1 and at most MAX")
    return parsed


def parse_nproc(text: str, environment: Mapping[str, str], devices: Path = _DEVICES) -> int:
    """A number, or what is there: `cpu` cores, `gpu`s, or `auto`: GPUs if any, else cores."""
    gpus = _gpus(environment, devices)
    cores = len(os.sched_getaffinity(0))
    if text == "gpu" and not gpus:
        raise UsageError("--nproc-per-node gpu: there is no GPU here")
    known = {"cpu": cores, "gpu": gpus, "auto": gpus or cores}
    count = known.get(text) or (int(text) if text.isdecimal() else 0)
    if count < 1:
        raise UsageError(f"--nproc-per-node {text}: it must be a number from 1, auto, cpu or gpu")
    return count


def _gpus(environment: Mapping[str, str], devices: Path) -> int:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip() and device.strip() != "-1"])
    return sum(1 for path in devices.glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal())


def parse_whole(option: str, text: str) -> int:
    """A whole number from 0."""
    if not text.isdecimal():
        raise UsageError(f"--{option} {text}: it must be a whole number from 0")
    return int(text)


def parse_conf(text: str) -> dict[str, float]:
    """`--rdzv-conf join_timeout=60,last_call_timeout=5` in seconds."""
    known = {"join_timeout", "last_call_timeout", "keep_alive"}
    conf: dict[str, float] = {}
    for word in filter(None, text.split(",")):
        name, equals, value = word.partition("=")
        try:
            conf[name.strip()] = float(value)
        except ValueError:
            raise UsageError(f"--rdzv-conf {word}: it must be KEY=SECONDS") from None
        if not 0 < conf[name.strip()] < math.inf:
            raise UsageError(f"--rdzv-conf {word}: it must be a number of seconds above 0")
        if not equals or name.strip() not in known:
            raise UsageError(f"--rdzv-conf {word}: known keys are {', '.join(sorted(known))}")
    return conf


def parse_endpoint(text: str) -> tuple[str, ...]:
    """`HOST[:PORT]`, several separated by commas; the port is 2379 unless given."""
    targets = tuple(word.strip() for word in text.split(",") if word.strip())
    if not targets:
        raise UsageError("--rdzv-endpoint is missing: HOST:PORT of etcd (or use --standalone)")
    return tuple(target if _has_port(target) else f"{target}:2379" for target in targets)


def _has_port(target: str) -> bool:
    host, _, port = target.rpartition(":")
    return bool(host) and port.isdecimal()


def worker_argv(namespace: argparse.Namespace, python: str) -> tuple[str, ...]:
    """The command of each worker."""
    if not namespace.script:
        raise UsageError("the script is missing; see elasticjob-agent --help")
    if namespace.module and namespace.no_python:
        raise UsageError("-m cannot be used together with --no-python; keep one of them")
    rest: Sequence[str] = namespace.script_args
    if namespace.no_python:
        return (namespace.script, *rest)
    return (python, "-u", *(["-m"] if namespace.module else []), namespace.script, *rest)
