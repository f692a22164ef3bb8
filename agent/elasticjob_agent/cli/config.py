"""`NodeSettings` from the command line."""

import argparse
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.cli import rdzv_conf, values
from elasticjob_agent.cli.keep_options import parse_keep, tls_files
from elasticjob_agent.cli.rdzv_backend import ExternalEtcd, RdzvBackend, StandaloneEtcd, resolve_backend
from elasticjob_agent.cli.rdzv_conf import RdzvConf
from elasticjob_agent.errors import UsageError
from elasticjob_agent.net.own_address import own_address_for_endpoint
from elasticjob_agent.node.run_node import NodeSettings
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.node_range import parse_nnodes
from elasticjob_agent.rendezvous.protocol.membership import LAST_CALL_TIMEOUT_S
from elasticjob_agent.shared_etcd.address import SharedEtcd
from elasticjob_agent.workers.cpu_binding import parse_binding
from elasticjob_agent.workers.output import PREFIX_TEMPLATE, Output
from elasticjob_api import constants, keys
from elasticjob_api.constants import JOIN_TIMEOUT_S, KEEP_ALIVE_S, WarmStart
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord
from elasticjob_etcd.interface import Endpoint


def from_command_line(
    namespace: argparse.Namespace,
    environment: Mapping[str, str],
    log_dir: Path,
    *,
    targets: tuple[str, ...],
    backend: RdzvBackend,
) -> NodeSettings:
    """Return the settings of an agent without an operator; `targets` are the addresses of etcd."""
    conf = rdzv_conf.parse_conf(namespace.rdzv_conf)
    keep = parse_keep(namespace, environment, tls=tls_files(conf.cert, conf.key, conf.ca_cert))
    spec = _spec(namespace, environment, conf, static=_is_static(backend))
    spec = replace(spec, keep_copies=None if keep is None else keep.copies)
    run_id = _run_id(namespace, backend)
    identity = _identity(namespace, environment, spec=spec, targets=targets, backend=backend)
    return NodeSettings(
        endpoint=Endpoint(targets, ca_cert=conf.ca_cert, cert=conf.cert, key=conf.key),
        identity=replace(identity, keys=Keys(keys.cli_prefix(run_id))),
        argv=values.worker_argv(namespace, environment.get("PYTHON_EXEC") or sys.executable),
        environment=dict(environment),
        run_id=run_id,
        log_dir=log_dir,
        join_timeout_s=spec.join_timeout_s,
        trace=environment.get(constants.ENV_TRACE),
        termination_log=environment.get(constants.ENV_TERMINATION_LOG),
        signals=values.parse_signals(namespace.signals_to_handle),
        fixed_port=None if isinstance(backend, ExternalEtcd) else backend.master_port,
        output=output_of(namespace, environment),
        virtual_local_rank=namespace.virtual_local_rank,
        is_warm_start=values.parse_warm_start(namespace.warm_start, environment) is WarmStart.AUTO,
        cpus=parse_binding(namespace.numa_binding, identity.nproc, environment),
        keep=keep,
    )


def _spec(namespace: argparse.Namespace, environment: Mapping[str, str], conf: RdzvConf, *, static: bool) -> SpecRecord:
    nodes = parse_nnodes(namespace.nnodes)
    return SpecRecord(
        min=nodes.max if static else nodes.min,
        max=nodes.max,
        desired=nodes.max,
        max_restarts=values.parse_positive_int("max-restarts", namespace.max_restarts),
        join_timeout_s=conf.join_timeout_s or JOIN_TIMEOUT_S,
        last_call_timeout_s=LAST_CALL_TIMEOUT_S if conf.last_call_timeout_s is None else conf.last_call_timeout_s,
        scale_up_delay_s=1.0,
        graceful_shutdown_s=_stop_grace_s(namespace, environment),
        keep_alive_s=conf.keep_alive_s or KEEP_ALIVE_S,
        progress_deadline_s=conf.progress_deadline_s or 0.0,
        restart_window_s=conf.restart_window_s or 0.0,
        backoff_initial_s=1.0 if conf.backoff_initial_s is None else conf.backoff_initial_s,
        backoff_max_s=300.0 if conf.backoff_max_s is None else conf.backoff_max_s,
    )


def _identity(
    namespace: argparse.Namespace,
    environment: Mapping[str, str],
    *,
    spec: SpecRecord,
    targets: tuple[str, ...],
    backend: RdzvBackend,
) -> NodeIdentity:
    host = socket.gethostname()
    return NodeIdentity(
        keys=Keys(""),
        pod=f"{host}-{os.getpid()}",
        pod_uid=secrets.token_hex(8),
        host=host,
        address=_address(namespace, targets, backend),
        nproc=values.parse_nproc(namespace.nproc_per_node, environment),
        role=namespace.role,
        slot=_slot(namespace, backend),
        own_spec=spec,
    )


def _is_static(backend: RdzvBackend) -> bool:
    return not isinstance(backend, ExternalEtcd) and backend.master_port is not None


def _slot(namespace: argparse.Namespace, backend: RdzvBackend) -> int | None:
    """Return the slot from --node-rank; None if the agent takes a free one."""
    if isinstance(backend, ExternalEtcd):
        return values.parse_positive_int("node-rank", namespace.node_rank) if namespace.node_rank else None
    # With c10d, torchrun ignores --node-rank, and users pass the same number on every node.
    return values.parse_positive_int("node-rank", namespace.node_rank or "0") if _is_static(backend) else None


def _address(namespace: argparse.Namespace, targets: tuple[str, ...], backend: RdzvBackend) -> str:
    """Return the address at which other nodes reach this one."""
    if namespace.local_addr:
        return str(namespace.local_addr)
    # Static: the workers of node rank 0 open their store at the address that the user gave as --master-addr.
    if not isinstance(backend, ExternalEtcd) and _is_static(backend) and _slot(namespace, backend) == 0:
        return backend.host
    return own_address_for_endpoint(backend.target if isinstance(backend, SharedEtcd) else targets[0])


def _stop_grace_s(namespace: argparse.Namespace, environment: Mapping[str, str]) -> float:
    text = namespace.shutdown_timeout or environment.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT") or "30"
    return float(values.parse_positive_int("shutdown-timeout", text))


def _run_id(namespace: argparse.Namespace, backend: RdzvBackend) -> str:
    """Return the run id; a random one, as in torchrun, for a standalone run without a name."""
    if isinstance(backend, StandaloneEtcd) and namespace.rdzv_id == "none":
        return secrets.token_hex(8)
    return values.parse_run_id(namespace.rdzv_id)


def output_of(namespace: argparse.Namespace, environment: Mapping[str, str]) -> Output:
    """Return the destinations of the workers' stdout and stderr from the options."""
    return Output(
        redirects=values.parse_streams("redirects", namespace.redirects),
        tee=values.parse_streams("tee", namespace.tee),
        console_ranks=values.parse_ranks("local-ranks-filter", namespace.local_ranks_filter),
        prefix_template=environment.get(PREFIX_TEMPLATE),
        stdout_filters=values.parse_list(namespace.duplicate_stdout_filters),
        stderr_filters=values.parse_list(namespace.duplicate_stderr_filters),
    )


def validate(namespace: argparse.Namespace, environment: Mapping[str, str]) -> RdzvBackend:
    """Return the rendezvous backend. Raise UsageError for a wrong command line before anything is started."""
    values.check_choices(namespace)
    if namespace.logs_specs is not None:
        raise UsageError(
            f"--logs-specs {namespace.logs_specs}: such classes need torch in the agent; use --log-dir, -r and -t"
        )
    conf = rdzv_conf.parse_conf(namespace.rdzv_conf)
    _validate_devices(namespace, environment)
    values.parse_interval("monitor-interval", namespace.monitor_interval)
    values.parse_signals(namespace.signals_to_handle)
    _stop_grace_s(namespace, environment)
    output_of(namespace, environment)
    values.worker_argv(namespace, sys.executable)
    parse_binding(namespace.numa_binding, values.parse_nproc(namespace.nproc_per_node, environment), environment)
    parse_keep(namespace, environment)
    backend = resolve_backend(namespace, conf)
    _run_id(namespace, backend)
    _slot(namespace, backend)
    _spec(namespace, environment, conf, static=False)
    return backend


def _validate_devices(namespace: argparse.Namespace, environment: Mapping[str, str]) -> None:
    nproc = values.parse_nproc(namespace.nproc_per_node, environment)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if namespace.virtual_local_rank and visible is not None and len(visible.split(",")) < nproc:
        raise UsageError(f"--virtual-local-rank: {nproc} workers cannot share CUDA_VISIBLE_DEVICES={visible}")
