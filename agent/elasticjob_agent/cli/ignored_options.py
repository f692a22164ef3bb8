"""Warnings for options and variables of torchrun that have no effect in this agent.

No option of torchrun is ignored silently: it works, or it is refused (`values.py`), or the agent logs one of these
warnings when it starts.
"""

import argparse
from collections.abc import Callable, Mapping

from elasticjob_agent.cli import rdzv_conf
from elasticjob_agent.cli.options import OPTIONS
from elasticjob_api import constants

_DEFAULTS = {option.dest: option.default for option in OPTIONS}
_OPTIONS: dict[str, str] = {
    "monitor_interval": "nothing here polls: a worker's end is known at once",
    "start_method": "the workers are commands, which are always exec'ed",
    "event_log_handler": "torch's elastic events are not written; read the log, or set ELASTICJOB_TRACE to a file",
}
_VARIABLES: dict[str, str] = {
    "TORCHELASTIC_ENABLE_FILE_TIMER": "torch's file timer needs torch in the agent",
    "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": "a worker that cannot be killed is reported at once",
    "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT": "a finished node waits for the others, without a limit",
    "TORCH_ELASTIC_WORKER_IDENTICAL": "ranks come with the round; there is no exchange to skip",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "the workers' store is never shared with the agent",
    "TORCH_MP_PARALLEL_START": "workers are always started in parallel",
}
_OFF = {"", "0", "false"}


def ignored_option_warnings(namespace: argparse.Namespace, environment: Mapping[str, str]) -> list[str]:
    """Return one warning for each option and variable without an effect."""
    return [
        *(
            f"--{name.replace('_', '-')} {_value(namespace, name)} has no effect: {why}"
            for name, why in _OPTIONS.items()
            if _value(namespace, name) != _DEFAULTS[name]
        ),
        *(warning for applies, warning in _ignored_combinations(namespace) if applies()),
        *_resume_warnings(namespace, environment),
        *(
            f"--rdzv-conf {key} has no effect: {rdzv_conf.UNUSED[key]}"
            for key in rdzv_conf.parse_conf(namespace.rdzv_conf).unused
        ),
        *(
            f"{name} has no effect: {why}"
            for name, why in _VARIABLES.items()
            if environment.get(name, "").lower() not in _OFF
        ),
    ]


def _resume_warnings(namespace: argparse.Namespace, environment: Mapping[str, str]) -> list[str]:
    """Return the warning that no later run finds the steps of this one, in a list."""
    directory = namespace.keep_persist_to or environment.get(constants.ENV_KEEP_PERSIST_TO)
    if not (directory and namespace.standalone and namespace.rdzv_id == _DEFAULTS["rdzv_id"]):
        return []
    return [
        (
            f"no later run resumes the steps in {directory}: without --rdzv-id each --standalone run has another name; "
            "give all runs of this training the same --rdzv-id"
        )
    ]


def _value(namespace: argparse.Namespace, name: str) -> str:
    return str(getattr(namespace, name))


def _ignored_combinations(namespace: argparse.Namespace) -> list[tuple[Callable[[], bool], str]]:
    """Return pairs of a condition and a warning, for options without an effect beside other given options."""
    static = namespace.rdzv_backend == "static" and not namespace.standalone
    master = namespace.master_addr != _DEFAULTS["master_addr"] or namespace.master_port is not None
    elastic = namespace.rdzv_backend == "c10d" or namespace.standalone
    return [
        (
            lambda: namespace.standalone and bool(namespace.rdzv_endpoint),
            "--rdzv-endpoint has no effect: --standalone has an etcd of its own",
        ),
        (
            lambda: master and not static,
            "--master-addr and --master-port have no effect: they are for --rdzv-backend static only",
        ),
        (
            lambda: elastic and namespace.node_rank is not None,
            "--node-rank has no effect with --rdzv-backend c10d, as in torchrun: nodes are numbered as they join",
        ),
        (
            lambda: namespace.run_path and (namespace.no_python or namespace.module),
            "--no-python and -m have no effect: --run-path takes precedence, as in torchrun",
        ),
    ]
