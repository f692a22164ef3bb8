"""From the command line, or from the pod's environment, to `NodeSettings`."""

import argparse
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from elasticjob_agent import arguments
from elasticjob_agent.arguments import UsageError
from elasticjob_agent.node import NodeSettings
from elasticjob_agent.rendezvous.joining import Profile
from elasticjob_api import keys, names
from elasticjob_api.keys import Keys
from elasticjob_api.records import Slots
from elasticjob_etcd.protocol import Endpoint

_LEASE_TTL_S = 6.0


def from_pod(namespace: argparse.Namespace, environment: Mapping[str, str], log_dir: Path) -> NodeSettings:
    """Settings of an agent that the operator's pod starts: `elasticjob-agent --pod -- command…`."""

    def need(name: str) -> str:
        if not environment.get(name):
            raise UsageError(f"{name} is not set; --pod is for pods that the elasticjob operator makes")
        return environment[name]

    if not namespace.script:
        raise UsageError("the command is missing: elasticjob-agent --pod -- command…")
    profile = Profile(
        keys=Keys(need(names.ENV_PREFIX)),
        pod=need(names.ENV_POD_NAME),
        pod_uid=need(names.ENV_POD_UID),
        host=environment.get(names.ENV_NODE_NAME) or socket.gethostname(),
        address=need(names.ENV_POD_IP),
        nproc=int(need(names.ENV_NPROC)),
        lease_ttl_s=_LEASE_TTL_S,
        slot=int(need(names.ENV_SLOT)),
    )
    return NodeSettings(
        endpoint=Endpoint(tuple(need(names.ENV_ENDPOINTS).split(","))),
        profile=profile,
        argv=(namespace.script, *namespace.script_args),
        environment=dict(environment),
        run_id=environment.get(names.ENV_JOB_UID) or need(names.ENV_JOB),
        log_dir=log_dir,
        trace=environment.get(names.ENV_TRACE),
        termination_log=environment.get(names.ENV_TERMINATION_LOG),
    )


def from_command_line(
    namespace: argparse.Namespace, environment: Mapping[str, str], log_dir: Path, *, targets: tuple[str, ...]
) -> NodeSettings:
    """Settings of an agent without an operator; `targets` is where etcd is."""
    nodes = arguments.parse_nnodes(namespace.nnodes)
    conf = arguments.parse_conf(namespace.rdzv_conf)
    host = socket.gethostname()
    address = namespace.local_addr or own_address(targets[0])
    spec = Slots(
        min=nodes.min,
        max=nodes.max,
        desired=nodes.max,
        max_restarts=arguments.parse_whole("max-restarts", namespace.max_restarts),
        join_timeout_s=conf.get("join_timeout", 600.0),
        last_call_s=conf.get("last_call_timeout", 5.0),
        scale_up_delay_s=1.0,
        stop_grace_s=float(arguments.parse_whole("shutdown-timeout", namespace.shutdown_timeout)),
    )
    profile = Profile(
        keys=Keys(keys.cli_prefix(_run_id(namespace))),
        pod=f"{host}-{os.getpid()}",
        pod_uid=secrets.token_hex(8),
        host=host,
        address=address,
        nproc=arguments.parse_nproc(namespace.nproc_per_node, environment),
        role=namespace.role,
        lease_ttl_s=conf.get("keep_alive", _LEASE_TTL_S),
        slot=arguments.parse_whole("node-rank", namespace.node_rank) if namespace.node_rank else None,
        own_spec=spec,
    )
    return NodeSettings(
        endpoint=Endpoint(targets),
        profile=profile,
        argv=arguments.worker_argv(namespace, sys.executable),
        environment=dict(environment),
        run_id=namespace.rdzv_id,
        log_dir=log_dir,
        join_timeout_s=spec.join_timeout_s,
        trace=environment.get(names.ENV_TRACE),
        termination_log=environment.get(names.ENV_TERMINATION_LOG),
    )


def check(namespace: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Raise UsageError for a wrong command line before anything is started."""
    arguments.parse_nnodes(namespace.nnodes)
    arguments.parse_conf(namespace.rdzv_conf)
    arguments.parse_nproc(namespace.nproc_per_node, environment)
    arguments.parse_whole("max-restarts", namespace.max_restarts)
    arguments.parse_whole("shutdown-timeout", namespace.shutdown_timeout)
    arguments.worker_argv(namespace, sys.executable)
    _run_id(namespace)


def _run_id(namespace: argparse.Namespace) -> str:
    if "/" in namespace.rdzv_id or not namespace.rdzv_id:
        raise UsageError(f"--rdzv-id {namespace.rdzv_id!r}: it must be a name without a slash")
    return str(namespace.rdzv_id)


def own_address(target: str) -> str:
    """The address from which this host reaches `target` (HOST:PORT); nothing is sent."""
    host, _, port = target.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(f"--rdzv-endpoint {target}: the host is not known ({error})") from error
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        try:
            probe.connect(address)
        except OSError as error:
            raise UsageError(f"--rdzv-endpoint {target}: there is no way to it ({error}); set --local-addr") from error
        return str(probe.getsockname()[0])
