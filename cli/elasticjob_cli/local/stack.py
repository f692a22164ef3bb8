"""The surroundings of a job on this machine: etcd, the operator over a cluster in memory, and a kubelet.

They are started in one step, and the caller's exit stack always stops them in reverse order. The operator is that of
a real cluster: nothing here plans anything. All of it ends with this process, even if that is killed.
"""

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
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
_PROGRESS_PERIOD_S = 1.0
"""No API server is spared here, so progress and kept steps are in `job.yaml` within a second or two."""
_AGENT_LOG_LEVEL = "warning"
"""The status reports the rounds, so agents log only warnings and errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdOptions:
    """Options of the embedded etcd: without a port it has none, without a path the binary is searched for."""

    port: int | None = None
    binary: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStack:
    """The parts of a local stack; the caller starts `operator.run` and `kubelet.run`."""

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
    memory: Path | None = None,
    observer: ReconcileObserver | None = None,
) -> LocalStack:
    """Start etcd and connect the other parts; raise EtcdNotStarted.

    Args:
        stack: stops everything; each part is added in the step that starts it.
        folder: the folder that all parts write to.
        cwd: the working directory of containers.
        environ: their environment before that of the manifest.
        options: options of etcd.
        write: takes the name of a pod and lines of its output.
        memory: the folder of the run in memory, for a job with `spec.keep`.
        observer: receives the operator's reconciles.
    """
    # First, while this process has no threads and no connections.
    supervisor = await Supervisor.create()
    stack.push_async_callback(supervisor.close)
    server = await _start_etcd(stack, folder, options)
    etcd = EtcdClient(server.endpoint)
    stack.push_async_callback(etcd.close)
    cluster_id = f"local-{uuid.uuid4().hex[:12]}"
    settings = Settings(
        cluster_id=cluster_id,
        operator_id=cluster_id,
        etcd_endpoints=server.endpoint.targets,
        progress_period_s=_PROGRESS_PERIOD_S,
    )
    cluster = InMemoryCluster(ids=_uids())
    return LocalStack(
        server=server,
        etcd=etcd,
        cluster=cluster,
        operator=Controller(cluster, etcd, settings, watch=cluster.watch, observer=observer),
        kubelet=Kubelet(
            cluster,
            supervisor=supervisor,
            host=replace(_host(folder, cwd, environ), memory=memory),
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
    """Raise EtcdNotStarted when etcd has ended: without it, a run could only wait."""
    await server.ended()
    raise EtcdNotStarted(f"etcd ended during the run; its last log lines are in {folder.etcd / 'etcd.log'}")
