"""Parse command lines of torchrun and similar launchers: the command that they start, and the spec fields of options.

The agent has the table of torchrun's options; the additions of DLRover and TorchElastic are here.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from elasticjob_agent.cli.options import OPTIONS, build_parser
from elasticjob_agent.cli.rdzv_conf import UNUSED
from elasticjob_agent.errors import UsageError
from elasticjob_agent.rendezvous.node_range import parse_nnodes
from elasticjob_cli.convert.result import NoteKind
from elasticjob_cli.errors import InvalidManifest

_PROGRAMS = {"torchrun", "dlrover-run", "elasticjob-agent", "torchelastic"}
_MODULES = {
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic",
    "torchelastic.distributed.launch",
    "dlrover.python.elastic_agent.torch.main",
    "dlrover.trainer.torch.main",
}
_DLROVER_FLAGS = {
    "network-check": "there is no network check before the first round",
    "comm-perf-test": "there is no network test",
    "auto-tunning": "nothing is tuned automatically",
    "auto-config": "set replicas and nprocPerNode",
    "exclude-straggler": "slow nodes are not excluded",
    "save-at-breakpoint": "save in the workers on SIGTERM: see spec.gracefulShutdown",
    "precheck": "there is no check before the first round",
}
_DLROVER_VALUES = {
    "accelerator": "nothing depends on the kind of accelerator",
    "training-port": "the agents choose MASTER_PORT",
    "rdzv-timeout": "spec.rendezvous.joinTimeoutSeconds bounds the start",
}
_UNSET = object()
_OWN_RENDEZVOUS = "the operator and its etcd are the rendezvous"
_REASONS = {
    "rdzv-backend": _OWN_RENDEZVOUS,
    "rdzv-endpoint": _OWN_RENDEZVOUS,
    "rdzv-id": "the id is the job's uid",
    "standalone": _OWN_RENDEZVOUS,
    "node-rank": "each round assigns the ranks",
    "master-addr": "the pod of rank 0 is the master",
    "master-port": "the agents choose a port for each round",
    "local-addr": "it is the pod's IP; spec.agent.interface names another interface",
    "role": "all nodes of an ElasticJob have one role",
    "monitor-interval": "the agent does not poll",
    "start-method": "workers are commands, which are exec'ed",
    "event-log-handler": "the operator writes Kubernetes events",
    "log-dir": "the pod's volume elasticjob-logs has the logs of each round and rank",
    "redirects": "the pod's log has all streams; the log volume has a file for each",
    "tee": "the pod's log has all streams; the log volume has a file for each",
    "local-ranks-filter": "the pod's log has all ranks; elasticjob logs --rank shows one",
    "duplicate-stdout-filters": "filter the output of elasticjob logs",
    "duplicate-stderr-filters": "filter the output of elasticjob logs",
    "logs-specs": "its classes need torch in the agent",
    "numa-binding": "start the workers with numactl",
    "virtual-local-rank": "workers have their own LOCAL_RANK; narrow CUDA_VISIBLE_DEVICES in the script",
    "signals-to-handle": "the agent leaves gracefully on the signals that Kubernetes sends",
}
_RUN_PATH = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


@dataclass(slots=True)
class Unwrapped:
    """The parts of a launcher's command line."""

    program: str
    command: tuple[str, ...]
    spec: dict[str, Any] = field(default_factory=dict)
    notes: list[tuple[str, NoteKind, str]] = field(default_factory=list)
    given: Mapping[str, Any] = field(default_factory=dict)
    """The given options, by name."""


def unwrap(words: Sequence[str]) -> Unwrapped | None:
    """Return the parts of a launcher's command line; None if it begins with no known launcher."""
    python, program, rest = _split(words)
    if not program:
        return None
    rest, foreign = _without_foreign_options(rest, ours=program == "elasticjob-agent")
    parser = build_parser({})
    parser.set_defaults(**{option.dest: _UNSET for option in OPTIONS})
    namespace = _parse(parser, rest, program)
    given = {o.name: v for o in OPTIONS if (v := getattr(namespace, o.dest)) is not _UNSET}
    found = Unwrapped(program, _command(python, namespace, given), given=given)
    _sizes(found, given)
    _times(found, given)
    if "warm-start" in given:
        found.spec["agent"] = {"warmStart": given["warm-start"]}
    for name, value in foreign.items():
        _foreign(found, name, value)
    for name in given:
        if name in _REASONS:
            found.notes.append((f"--{name}", NoteKind.LEFT_OUT, _REASONS[name]))
    return found


def _split(words: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the Python, the launcher, and its arguments; empty texts without a launcher."""
    rest = list(words)
    name = PurePosixPath(rest[0]).name if rest else ""
    if name in _PROGRAMS:
        return "python", name, rest[1:]
    if name.startswith("python"):
        at = next((i for i, word in enumerate(rest) if word == "-m"), 0)
        if at and rest[at + 1 : at + 2] and rest[at + 1] in _MODULES:
            return rest[0], rest[at + 1], rest[at + 2 :]
    return "", "", rest


def _without_foreign_options(words: list[str], *, ours: bool) -> tuple[list[str], dict[str, str]]:
    """Return the words without the options of DLRover and of old launchers, and these options."""
    rest: list[str] = []
    found: dict[str, str] = {}
    known = {spelling for option in OPTIONS for spelling in option.flags}
    flags = {spelling for option in OPTIONS if option.flag for spelling in option.flags}
    while words:
        word, *words = words
        name, equals, value = word.partition("=")
        plain = name.removeprefix("--").replace("_", "-")
        if not word.startswith("-"):
            return [*rest, word, *words], found
        if not ours and plain in _DLROVER_FLAGS:
            found[plain] = value or "true"
        elif not ours and plain in {*_DLROVER_VALUES, "node-unit"}:
            if not equals and words:
                value, *words = words
            found[plain] = value
        elif plain == "use-env":  # of torch.distributed.launch
            found[plain] = "true"
        else:
            rest.append(word)
            if name in known - flags and not equals and words:
                value, *words = words
                rest.append(value)
    return rest, found


class _QuietError(Exception):
    """The error that argparse would have printed."""


def _parse(parser: argparse.ArgumentParser, words: list[str], program: str) -> argparse.Namespace:
    def refuse(message: str) -> None:
        raise _QuietError(message)

    parser.error = refuse  # type: ignore[method-assign, assignment]  # it would exit
    try:
        return parser.parse_args(words)
    except _QuietError as error:
        raise InvalidManifest(f"{program}: {error}; compare with `{program} --help`") from error


def _command(python: str, namespace: argparse.Namespace, given: Mapping[str, Any]) -> tuple[str, ...]:
    if not namespace.script:
        raise InvalidManifest("the launcher's command line has no script; put it after the options")
    rest = tuple(namespace.script_args)
    if given.get("no-python"):
        return (namespace.script, *rest)
    if given.get("run-path"):
        return (python, "-u", "-c", _RUN_PATH, namespace.script, *rest)
    module = ("-m",) if given.get("module") else ()
    return (python, "-u", *module, namespace.script, *rest)


def _sizes(found: Unwrapped, given: Mapping[str, Any]) -> None:
    if "nnodes" in given:
        try:
            nodes = parse_nnodes(given["nnodes"])
        except UsageError as error:
            if not given["nnodes"].startswith("$"):
                raise InvalidManifest(str(error)) from error
            found.notes.append(
                ("--nnodes", NoteKind.CHANGED, f"{given['nnodes']} is known only in the pod; set replicas")
            )
        else:
            found.spec |= {"replicas": nodes.max, "minReplicas": nodes.min, "maxReplicas": nodes.max}
    if given.get("standalone"):
        found.spec |= {"replicas": 1, "minReplicas": None, "maxReplicas": None}
    if "nproc-per-node" in given:
        found.spec["nprocPerNode"] = nproc(str(given["nproc-per-node"]), "--nproc-per-node", found.notes)
    if "max-restarts" in given:
        _whole(found, "max-restarts", given["max-restarts"], "maxRestarts")


def nproc(value: str, path: str, remarks: list[tuple[str, NoteKind, str]]) -> int | str:
    """Return a number, or `auto`, which means the GPUs in the container's limits."""
    if value.isdecimal():
        return int(value)
    if value not in {"auto", "gpu"}:
        remarks.append((path, NoteKind.CHANGED, f"{value} is now auto: the GPUs in the limits, else 1; set a number"))
    elif value == "gpu":
        remarks.append((path, NoteKind.CHANGED, "gpu is now auto: the GPUs in the container's limits"))
    return "auto"


def _whole(found: Unwrapped, option: str, value: Any, name: str) -> None:
    if str(value).isdecimal():
        found.spec[name] = int(value)
    else:
        found.notes.append((f"--{option}", NoteKind.LEFT_OUT, f"{value} is not a whole number; set spec.{name}"))


def _times(found: Unwrapped, given: Mapping[str, Any]) -> None:
    if "shutdown-timeout" in given:
        _whole(found, "shutdown-timeout", given["shutdown-timeout"], "seconds")
        if "seconds" in found.spec:
            found.spec["gracefulShutdown"] = {"seconds": found.spec.pop("seconds")}
    found.spec |= conf(str(given.get("rdzv-conf", "")), found.notes)


_CONF = {
    "join_timeout": "joinTimeoutSeconds",
    "timeout": "joinTimeoutSeconds",
    "last_call_timeout": "lastCallTimeoutSeconds",
    "keep_alive": "keepAliveSeconds",
}


def conf(text: str, remarks: list[tuple[str, NoteKind, str]]) -> dict[str, Any]:
    """Return the `rendezvous` field for the text of `--rdzv-conf`."""
    made: dict[str, int] = {}
    for word in filter(None, text.split(",")):
        key, _, value = word.partition("=")
        try:
            made[_CONF[key.strip()]] = max(1, round(float(value)))
        except (KeyError, ValueError):
            why = UNUSED.get(key, "the operator's settings have the endpoints, certificates and timeouts of etcd")
            remarks.append((f"--rdzv-conf {key}", NoteKind.LEFT_OUT, why))
    return {"rendezvous": made} if made else {}


def _foreign(found: Unwrapped, name: str, value: str) -> None:
    if name == "node-unit":
        _whole(found, name, value, "replicaStep")
    elif name == "use-env":
        found.notes.append(("--use-env", NoteKind.LEFT_OUT, "workers always find their rank in the environment"))
    else:
        why = _DLROVER_FLAGS.get(name) or _DLROVER_VALUES[name]
        found.notes.append((f"--{name}", NoteKind.LEFT_OUT, why))
