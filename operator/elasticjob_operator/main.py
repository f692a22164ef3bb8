"""`elasticjob-operator`: the process of the operator's Deployment."""

import argparse
import asyncio
import contextlib
import functools
import gc
import logging
import sys
from collections.abc import Coroutine
from typing import Any

from elasticjob_api.constants import WarmStart
from elasticjob_api.nesting import allow_stored_levels
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.lease_admin import EtcdLeaseAdmin
from elasticjob_etcd.maintenance import EtcdMaintenance
from elasticjob_etcd.member_bootstrap import is_empty
from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.installation import Installation, read_installation
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.cluster.list_watch import ListWatch
from elasticjob_operator.cluster.retry import retry_until_success
from elasticjob_operator.controller import leader_election
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.controller.ids import new_installation_id
from elasticjob_operator.errors import OperatorError
from elasticjob_operator.handlers import OperatorTask, run_with_kopf
from elasticjob_operator.informers.reflector import watch_with
from elasticjob_operator.informers.retained_jobs import JOBS_MEMORY
from elasticjob_operator.log_format import log_to_stderr
from elasticjob_operator.maintenance.leases import EtcdLeaseSweeper
from elasticjob_operator.maintenance.membership import EtcdMemberReplacer
from elasticjob_operator.maintenance.space import EtcdSpaceKeeper
from elasticjob_operator.maintenance.tasks import EtcdTasks
from elasticjob_operator.maintenance.volumes import EtcdVolumeReplacer
from elasticjob_operator.metrics.prometheus import CONTENT_TYPE, PrometheusRecorder
from elasticjob_operator.model.cluster_interface import Cluster
from elasticjob_operator.probes import ProbeServer, ProbeSources
from elasticjob_operator.settings import Settings
from elasticjob_operator.tls.setup import add_options, open_tls
from elasticjob_operator.ui import PageServer, PageState

_PORTS = 65536
_GC_THRESHOLD = 20_000
"""Allocations minus deallocations before a collection; twenty pods are about that many objects when they arrive."""

log = logging.getLogger("elasticjob_operator")


def main() -> None:
    """Run until stopped; exit with 0 after a signal, with 1 after a failure."""
    options = _parser().parse_args()
    log_to_stderr(verbose=options.verbose, as_json=options.log_format == "json")
    _tune_gc()
    allow_stored_levels()
    try:
        asyncio.run(run(options))
    except Exception as error:  # noqa: BLE001 -- any error ends the process, and is logged
        _log_failure(error)
        sys.exit(1)


def _tune_gc() -> None:
    """Make garbage collections rare, and keep them off all objects that exist now."""
    gc.collect()
    gc.freeze()  # imported modules are never freed
    gc.set_threshold(_GC_THRESHOLD)  # most new objects are decoded JSON, which has no cycles


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="elasticjob-operator", description=__doc__)
    _add_etcd_options(parser)
    parser.add_argument("--namespace", action="append", default=[], help="namespace to watch; repeatable [all]")
    parser.add_argument("--agent-image", default="elasticjob-agent", help="image of the agent, for agent.mode Inject")
    parser.add_argument(
        "--agent-image-pull-secret", action="append", default=[], help="secret in the job's namespace; repeatable"
    )
    parser.add_argument(
        "--warm-start",
        type=WarmStart,
        choices=tuple(WarmStart),
        default=WarmStart.OFF,
        help="agent.warmStart of jobs that do not set it [Off]",
    )
    parser.add_argument("--cluster-id", help="first element of every key [uid of the kube-system namespace]")
    parser.add_argument(
        "--installation",
        metavar="ID",
        help="id of this installation, written into the status of each of its jobs [operator id]",
    )
    parser.add_argument(
        "--installation-config-map",
        type=_parse_endpoint,
        metavar="NAMESPACE/NAME",
        help="ConfigMap that keeps the installation's id and the cluster id; an id that it lacks is written once",
    )
    parser.add_argument(
        "--manager-name", default="", metavar="NAME", help="spec.managedBy of jobs that only this operator acts on"
    )
    parser.add_argument(
        "--operator-id", help="id written into each spec record, for installations that share an etcd [cluster id]"
    )
    parser.add_argument(
        "--records-memory",
        type=_parse_positive,
        metavar="BYTES",
        default=128 << 20,
        help="memory for the records of all jobs; beyond it, the job that uses most for its size fails [128 MiB]",
    )
    parser.add_argument(
        "--jobs-memory",
        type=_parse_positive,
        metavar="BYTES",
        default=JOBS_MEMORY,
        help="memory for the specs of all jobs; a namespace may use as much as is free [128 MiB]",
    )
    parser.add_argument(
        "--liveness", metavar="URL", help="address of the health probe; its port also serves /readyz and /metrics"
    )
    add_options(parser)
    leader_election.add_options(parser)
    parser.add_argument(
        "--ui", type=_parse_address, metavar="HOST:PORT", help="serve a read-only web page at this address [none]"
    )
    parser.add_argument("--log-format", choices=["text", "json"], default="text", help="json: one object per line")
    parser.add_argument("--verbose", action="store_true", help="log more")
    return parser


def _add_etcd_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--etcd-endpoints", required=True, help="HOST:PORT,… of etcd, as this process reaches it")
    parser.add_argument(
        "--etcd-quota-bytes",
        type=_parse_positive,
        help="size limit of the installation's own etcd, whose space, leases and users the operator maintains [none]",
    )
    parser.add_argument(
        "--etcd-member",
        action="append",
        default=[],
        metavar="NAME=PEER_URL",
        help="a member of etcd; the operator replaces lost members of those given; repeatable [none]",
    )
    parser.add_argument(
        "--etcd-volumes-namespace",
        metavar="NAME",
        help="namespace of the members' pods and claims data-NAME; the operator replaces claims of lost nodes [none]",
    )
    parser.add_argument(
        "--etcd-replace-volume-after",
        type=_parse_seconds,
        metavar="SECONDS",
        default=600.0,
        help="time for which the node of a lost volume must be not ready; 60 if deleted or out of service [600]",
    )
    parser.add_argument("--pod-etcd-endpoints", help="HOST:PORT,… of etcd, as pods reach it [--etcd-endpoints]")


def _parse_positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes above 0")
    return number


def _parse_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _parse_endpoint(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        example = "elasticjob-system/elasticjob-installation"
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME, for example {example}")
    return namespace, name


def _parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < _PORTS):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:8081")
    return host.strip("[]"), int(port)


async def run(options: argparse.Namespace) -> None:
    """Connect to the API server, then run kopf and the operator until a signal.

    Raises the error that ended the operator.
    """
    connection = await Connection.open()
    try:
        prepare = functools.partial(_prepare, options, connection)
        await run_with_kopf(OperatorTask(prepare, connection.credentials), tuple(options.namespace))
    finally:
        await connection.close()


async def _prepare(
    options: argparse.Namespace, connection: Connection, task: OperatorTask, opened: contextlib.AsyncExitStack
) -> Coroutine[Any, Any, None]:
    """Wait for the API server, connect to etcd, serve probes and the page; return the operator's work."""
    namespaces = tuple(options.namespace)
    cluster, list_watch = KubeCluster(connection), ListWatch(connection, namespaces)
    elector = leader_election.elector_from(options, cluster)
    leads = (lambda: elector.is_leader) if elector is not None else (lambda: True)
    secured = await opened.enter_async_context(open_tls(options, cluster, leads))
    etcd = EtcdClient(secured.endpoint)
    opened.push_async_callback(etcd.close)
    await retry_until_success(list_watch.require_served, description="cannot watch jobs and pods")
    settings = await _settings(options, cluster)
    log.info(
        "watching %s; keys begin with /elasticjob/%s/", ", ".join(namespaces) or "all namespaces", settings.cluster_id
    )
    recorder, page_state = PrometheusRecorder(), PageState() if options.ui else None
    operator = Controller(
        cluster,
        etcd,
        settings,
        watch=watch_with(list_watch, jobs_memory=options.jobs_memory),
        metrics=recorder,
        observer=page_state,
        credentials=secured.credentials(cluster, etcd, options, settings, recorder),
        etcd_tasks=EtcdTasks(
            space=_space(options, secured.endpoint),
            leases=_leases(options, secured.endpoint, recorder),
            membership=_membership(options, secured.endpoint, cluster),
        ),
        elector=elector,
        is_saturated=connection.is_saturated,
        is_watched=list_watch.has_listed,
    )
    recorder.serve_state(operator.phases, operator.depth, lambda: operator.is_leader, operator.unmanaged)
    await opened.enter_async_context(_probes(options.liveness, task, operator, recorder))
    await opened.enter_async_context(_web_page(options.ui, page_state))
    return operator.run()


async def _settings(options: argparse.Namespace, cluster: KubeCluster) -> Settings:
    found = await _installation(options, cluster)
    return Settings(
        cluster_id=found.cluster_id,
        operator_id=options.operator_id or found.cluster_id,
        installation=options.installation or found.id,
        manager_name=options.manager_name,
        etcd_endpoints=tuple((options.pod_etcd_endpoints or options.etcd_endpoints).split(",")),
        records_memory=options.records_memory,
        etcd_tls=bool(options.etcd_ca_secret),
        agent_image=options.agent_image,
        warm_start=options.warm_start,
        agent_image_pull_secrets=tuple(options.agent_image_pull_secret),
    )


async def _installation(options: argparse.Namespace, cluster: KubeCluster) -> Installation:
    """Return the ids that the ConfigMap keeps; without a ConfigMap, those of the options."""

    async def cluster_id() -> str:
        if options.cluster_id:
            return str(options.cluster_id)
        description = "cannot read this cluster's id (--cluster-id sets it)"
        return await retry_until_success(cluster.cluster_id, description=description)

    if options.installation_config_map is None:
        known = await cluster_id()
        return Installation(id=options.operator_id or known, cluster_id=known)
    namespace, name = options.installation_config_map
    found = await retry_until_success(
        lambda: read_installation(cluster, namespace, name, new_id=new_installation_id, cluster_id=cluster_id),
        description="cannot read the id of this installation",
    )
    if options.cluster_id not in {None, found.cluster_id}:
        log.warning(
            "--cluster-id %s is not used: ConfigMap %s/%s keeps %s, and another one would restart every job",
            *(options.cluster_id, namespace, name, found.cluster_id),
        )
    return found


def _space(options: argparse.Namespace, endpoint: Endpoint) -> EtcdSpaceKeeper | None:
    if options.etcd_quota_bytes is None:
        return None
    return EtcdSpaceKeeper(lambda: EtcdMaintenance.connect(endpoint), quota=options.etcd_quota_bytes)


def _membership(options: argparse.Namespace, endpoint: Endpoint, cluster: Cluster) -> EtcdMemberReplacer | None:
    if not options.etcd_member:
        return None
    pods = dict(pair.split("=", 1) for pair in options.etcd_member)
    connect = functools.partial(EtcdMaintenance.connect, endpoint)
    return EtcdMemberReplacer(
        connect, pods, lambda url: is_empty(url, endpoint.ca_cert), volumes=_volumes(options, cluster)
    )


def _volumes(options: argparse.Namespace, cluster: Cluster) -> EtcdVolumeReplacer | None:
    if not options.etcd_volumes_namespace:
        return None
    return EtcdVolumeReplacer(
        cluster, options.etcd_volumes_namespace, replace_after_s=options.etcd_replace_volume_after
    )


def _leases(options: argparse.Namespace, endpoint: Endpoint, recorder: PrometheusRecorder) -> EtcdLeaseSweeper | None:
    if options.etcd_quota_bytes is None:
        return None
    return EtcdLeaseSweeper(lambda: EtcdLeaseAdmin.connect(endpoint), recorder.etcd_leases_revoked)


def _probes(
    url: str | None, operator_task: OperatorTask, operator: Controller, recorder: PrometheusRecorder
) -> contextlib.AbstractAsyncContextManager[object]:
    if url is None:
        return contextlib.nullcontext()
    return ProbeServer(
        url,
        ProbeSources(
            running=lambda: operator_task.is_alive,
            ready=lambda: operator.ready,
            leads=lambda: operator.is_leader,
            ages=recorder.ages,
            metrics=recorder.text,
            metrics_type=CONTENT_TYPE,
        ),
    )


def _web_page(
    at: tuple[str, int] | None, page_state: PageState | None
) -> contextlib.AbstractAsyncContextManager[object]:
    if at is None or page_state is None:
        return contextlib.nullcontext()
    log.info("the web page is on %s port %d", *at)
    return PageServer(page_state, host=at[0], port=at[1])


def _log_failure(error: BaseException) -> None:
    """Log each error of an exception group; with a traceback unless its message is enough to explain it."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            _log_failure(inner)
        return
    is_explained = isinstance(error, OperatorError | EtcdError)
    log.error("the operator ends: %s", error, exc_info=None if is_explained else error)


if __name__ == "__main__":
    main()
