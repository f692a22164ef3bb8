"""The surroundings of a job on this machine: etcd, the operator over a cluster in memory, and a kubelet.

Built in one step and taken down in reverse by the caller's exit stack, whatever happened. The operator is the one
of a real cluster: nothing here plans anything. All of it dies with this process, whatever that dies of.
"""

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.supervisor import Supervisor
from elasticjob_api import constants
from elasticjob_cli.errors import EtcdNotStarted
from elasticjob_cli.local.containers import Host
from elasticjob_cli.local.kubelet import Kubelet
from elasticjob_cli.local.run_dir import RunDir
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import ServerError
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.controller.observer import ReconcileObserver
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.settings import Settings

_ETCD_STOP_S = 0.5
_AGENT_LOG_LEVEL = "warning"
"""What agents say of rounds is told from the status; only their troubles are news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdOptions:
    """How the embedded etcd is started: at a port only if one is given; no binary is the one that is found."""

    port: int | None = None
    binary: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStack:
    """Everything that runs; `operator.run` and `kubelet.run` are the caller's to start."""

    server: EmbeddedEtcd
    etcd: EtcdClient
    cluster: InMemoryCluster
    operator: Controller
    kubelet: Kubelet
    cluster_id: str


async def build_stack(
    stack: AsyncExitStack,
    *,
    folder: RunDir,
    cwd: Path,
    environ: Mapping[str, str],
    options: EtcdOptions,
    write: Callable[[str, bytes], None],
    observer: ReconcileObserver | None = None,
) -> LocalStack:
    """Start etcd and put the rest together; raises EtcdNotStarted.

    Args:
        stack: takes everything down again; each part is pushed in the same step in which it began.
        folder: where all of it writes.
        cwd: where containers run.
        environ: their environment before the manifest's.
        options: of etcd.
        write: takes a pod's name and lines that it wrote.
        observer: sees what the operator does.
    """
    # First, while this process has no threads and no connections.
    supervisor = await Supervisor.create()
    stack.push_async_callback(supervisor.close)
    server = await _start_etcd(stack, folder, options)
    etcd = EtcdClient(server.endpoint)
    stack.push_async_callback(etcd.close)
    cluster_id = f"local-{uuid.uuid4().hex[:12]}"
    settings = Settings(cluster_id=cluster_id, operator_id=cluster_id, etcd_endpoints=server.endpoint.targets)
    cluster = InMemoryCluster(ids=_uids())
    return LocalStack(
        server=server,
        etcd=etcd,
        cluster=cluster,
        operator=Controller(cluster, etcd, settings, observer=observer),
        kubelet=Kubelet(
            cluster,
            supervisor=supervisor,
            host=_host(folder, cwd, environ),
            now=lambda: to_rfc3339(time.time()),
            write=write,
        ),
        cluster_id=cluster_id,
    )


async def _start_etcd(stack: AsyncExitStack, folder: RunDir, options: EtcdOptions) -> EmbeddedEtcd:
    try:
        server = await EmbeddedEtcd.start(folder.etcd, client_port=options.port, binary=options.binary)
    except ServerError as error:
        raise EtcdNotStarted(str(error)) from error
    stack.push_async_callback(server.stop, grace_s=_ETCD_STOP_S)
    return server


def _host(folder: RunDir, cwd: Path, environ: Mapping[str, str]) -> Host:
    return Host(
        environ={
            constants.ENV_LOG_LEVEL: _AGENT_LOG_LEVEL,
            constants.ENV_TRACE: str(folder.trace.absolute()),
            **environ,
        },
        bin=Path(sys.executable).parent,
        cwd=cwd,
        pods=folder.pods.absolute(),
        volumes=folder.host.absolute(),
        logs=folder.logs.absolute(),
    )


def _uids() -> Iterator[str]:
    while True:
        yield str(uuid.uuid4())


async def watch_etcd(server: EmbeddedEtcd, folder: RunDir) -> None:
    """Return never; EtcdNotStarted when etcd has ended: without it a run can only wait."""
    await server.ended()
    raise EtcdNotStarted(f"etcd ended in the middle of the run; its last words are in {folder.etcd / 'etcd.log'}")
