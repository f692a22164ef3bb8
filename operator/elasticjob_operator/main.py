"""`elasticjob-operator`: the process of the operator's Deployment."""

import argparse
import asyncio
import logging
import sys

import kopf

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.protocol import Endpoint
from elasticjob_operator.cluster.feed import Feed
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.errors import OperatorError
from elasticjob_operator.handlers import Running, register
from elasticjob_operator.operator import Operator
from elasticjob_operator.settings import Settings

_TELL_AGAIN_S = 5.0

log = logging.getLogger("elasticjob_operator")


def main() -> None:
    """Run until stopped; exit 0 after a signal, 1 after a fault."""
    options = _parser().parse_args()
    level = logging.DEBUG if options.verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    sys.exit(asyncio.run(run(options)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="elasticjob-operator", description=__doc__)
    parser.add_argument("--etcd-endpoints", required=True, help="HOST:PORT,… of etcd, as this process reaches it")
    parser.add_argument("--pod-etcd-endpoints", help="the same as pods reach it [--etcd-endpoints]")
    parser.add_argument("--namespace", action="append", default=[], help="watch only this one; repeatable [all]")
    parser.add_argument("--agent-image", default="elasticjob-agent", help="image of the agent, for agent.mode Inject")
    parser.add_argument("--cluster-id", help="first element of every key [uid of the kube-system namespace]")
    parser.add_argument("--operator-id", help="whose keys are whose, when two installations share an etcd [cluster id]")
    parser.add_argument("--liveness", help="http://0.0.0.0:8080/healthz or the like: where to answer probes")
    parser.add_argument("--verbose", action="store_true", help="say more")
    return parser


async def run(options: argparse.Namespace) -> int:
    """Connect, then kopf and the operator side by side; the exit code."""
    feed, stop = Feed(), asyncio.Event()
    namespaces = tuple(options.namespace)
    cluster = await KubeCluster.connect(feed, namespaces)
    etcd = EtcdClient(Endpoint(tuple(options.etcd_endpoints.split(","))))
    try:
        cluster_id = options.cluster_id or await _cluster_id(cluster)
        settings = Settings(
            cluster_id=cluster_id,
            operator_id=options.operator_id or cluster_id,
            etcd_endpoints=tuple((options.pod_etcd_endpoints or options.etcd_endpoints).split(",")),
            agent_image=options.agent_image,
        )
        running = Running(Operator(cluster, etcd, settings), feed, stop)
        registry = kopf.OperatorRegistry()
        register(registry, running)
        await kopf.operator(
            registry=registry,
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            liveness_endpoint=options.liveness,
            stop_flag=stop,
        )
        return 1 if running.failure else 0
    finally:
        await etcd.close()
        await cluster.close()


async def _cluster_id(cluster: KubeCluster) -> str:
    """Keep asking: without it no key can be named, and the API server may come later than the operator."""
    while True:
        try:
            return await cluster.cluster_id()
        except OperatorError as error:
            log.warning("cannot learn this cluster's id, trying again (or set --cluster-id): %s", error)
            await asyncio.sleep(_TELL_AGAIN_S)


if __name__ == "__main__":
    main()
