"""A node of a call as the agent knows it: who it is, what the rendezvous is told, what its workers run."""

import json
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from elasticjob.multinode.protocol import CallSpec, Invitation
from elasticjob.multinode.secret import VARIABLE
from elasticjob.multinode.worker import ENV_CALL
from elasticjob_agent.cli.rdzv_backend import SharedEtcd
from elasticjob_agent.cli.values import C10D_PORT, parse_endpoint
from elasticjob_agent.node.run_node import NodeSettings
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_api.records import SpecRecord
from elasticjob_etcd.interface import Endpoint

KEEP_ALIVE_S = 6.0
_SCALE_UP_DELAY_S = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_COMMAND = "from elasticjob.multinode.worker import main; main()"


@dataclass(frozen=True, slots=True)
class CallContext:
    """What this process has for one call."""

    folder: Path
    """Goes at the end."""
    received_signals: list[signal.Signals] = field(default_factory=list)
    """Signals that came."""


def node_settings(
    spec: CallSpec,
    content: bytes,
    *,
    where: Invitation,
    endpoint: Endpoint,
    address: str,
    context: CallContext,
    nprocs: int,
) -> NodeSettings:
    """Everything the agent must know to be this node; the function is written where its workers find it."""
    file, logs = context.folder / "call", context.folder / "logs"
    logs.mkdir()
    report = {**asdict(where), "max_result_bytes": spec.max_result_bytes}
    file.write_bytes(json.dumps(report).encode() + b"\n" + content)
    main_thread = threading.current_thread() is threading.main_thread()
    return NodeSettings(
        endpoint=endpoint,
        profile=_identity(spec, address, nprocs),
        argv=(sys.executable, "-P", "-c", _COMMAND),
        environment={**_without_secret(os.environ), ENV_CALL: str(file)},
        run_id=spec.run_id,
        log_dir=logs,
        join_timeout_s=spec.join_timeout_s,
        signals=_SIGNALS if main_thread else (),
    )


def _without_secret(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != VARIABLE}


def call_spec(spec: CallSpec) -> SpecRecord:
    """What the rendezvous is told of a call. The asker alone writes it, once, so that no node can repeat the call."""
    return SpecRecord(
        min=spec.min_nodes,
        max=spec.max_nodes,
        desired=spec.max_nodes,
        max_restarts=spec.max_restarts,
        join_timeout_s=spec.join_timeout_s,
        last_call_timeout_s=spec.last_call_timeout_s,
        keep_alive_s=KEEP_ALIVE_S,
        scale_up_delay_s=_SCALE_UP_DELAY_S,
    )


def _identity(terms: CallSpec, address: str, nprocs: int) -> NodeIdentity:
    host = socket.gethostname()
    return NodeIdentity(
        keys=Keys(cli_prefix(terms.run_id)),
        pod=f"{host}-{os.getpid()}-{secrets.token_hex(2)}",
        pod_uid=secrets.token_hex(8),
        host=host,
        address=address,
        nproc=nprocs,
        lease_ttl_s=KEEP_ALIVE_S,
    )


def rendezvous_address(rdzv_endpoint: str) -> SharedEtcd:
    """Where nodes meet: at an etcd that is there, or else one that the node which asks starts if it is there."""
    target = parse_endpoint(rdzv_endpoint, C10D_PORT)[0]
    host, _, port = target.rpartition(":")
    return SharedEtcd(host=host.strip("[]"), port=int(port), is_owner=None, or_there=True)
