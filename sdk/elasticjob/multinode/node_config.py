"""A node of a call as settings of the agent: its identity, its spec record, and the command of its workers."""

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

from elasticjob.multinode.call_secret import VARIABLE
from elasticjob.multinode.call_worker import ENV_CALL
from elasticjob.multinode.protocol import CallSpec, Invitation
from elasticjob_agent.net.host_port import C10D_PORT, parse_endpoint
from elasticjob_agent.node.run_node import NodeSettings
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.shared_etcd.address import SharedEtcd
from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_api.records import SpecRecord
from elasticjob_etcd.interface import Endpoint

_SCALE_UP_DELAY_S = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_COMMAND = "from elasticjob.multinode.call_worker import main; main()"


@dataclass(frozen=True, slots=True)
class CallContext:
    """The state of this process for one call."""

    folder: Path
    """A temporary folder, removed at the end."""
    received_signals: list[signal.Signals] = field(default_factory=list)
    """The signals that this process received."""


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
    """Return the settings of the agent for this node, and write the function to a file for its workers."""
    file, logs = context.folder / "call", context.folder / "logs"
    logs.mkdir()
    report = {**asdict(where), "max_result_bytes": spec.max_result_bytes}
    file.write_bytes(json.dumps(report).encode() + b"\n" + content)
    main_thread = threading.current_thread() is threading.main_thread()
    return NodeSettings(
        endpoint=endpoint,
        identity=_identity(spec, address, nprocs),
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
    """Return the spec record of a call."""
    # Only the driver writes it, and only once, so that no other node can repeat the call.
    return SpecRecord(
        min=spec.min_nodes,
        max=spec.max_nodes,
        desired=spec.max_nodes,
        max_restarts=spec.max_restarts,
        join_timeout_s=spec.join_timeout_s,
        last_call_timeout_s=spec.last_call_timeout_s,
        scale_up_delay_s=_SCALE_UP_DELAY_S,
    )


def _identity(spec: CallSpec, address: str, nprocs: int) -> NodeIdentity:
    host = socket.gethostname()
    return NodeIdentity(
        keys=Keys(cli_prefix(spec.run_id)),
        pod=f"{host}-{os.getpid()}-{secrets.token_hex(2)}",
        pod_uid=secrets.token_hex(8),
        host=host,
        address=address,
        nproc=nprocs,
    )


def rendezvous_address(rdzv_endpoint: str) -> SharedEtcd:
    """Return the address where the nodes meet: an existing etcd, or one that the driver starts on that host."""
    target = parse_endpoint(rdzv_endpoint, C10D_PORT)[0]
    host, _, port = target.rpartition(":")
    return SharedEtcd(host=host.strip("[]"), port=int(port), is_owner=None, or_there=True)
