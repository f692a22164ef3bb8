"""The rendezvous backend of a command-line job, from --rdzv-backend and the options that belong to it.

torchrun's backends are implemented over etcd. With `etcd` an existing etcd is used. With `c10d` the endpoint's host
starts one at the endpoint. With `static` node rank 0 starts one beside MASTER_PORT. A single node that no other node
can join starts an etcd of its own.
"""

import argparse
from dataclasses import dataclass

from elasticjob_agent.cli import values
from elasticjob_agent.cli.rdzv_conf import RdzvConf
from elasticjob_agent.errors import UsageError
from elasticjob_agent.net.host_port import C10D_PORT, is_loopback, parse_endpoint, parse_single_endpoint
from elasticjob_agent.rendezvous.node_range import parse_nnodes
from elasticjob_agent.shared_etcd.address import SharedEtcd

ETCD_NAMES = ("etcd", "elasticjob")
STATIC_PORT = 29500
_UNSUPPORTED = {
    "etcd-v2": "etcd's API v2 is obsolete; use --rdzv-backend etcd, which uses v3 of the same servers",
}


@dataclass(frozen=True, slots=True)
class ExternalEtcd:
    """An existing etcd."""

    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneEtcd:
    """An etcd that this agent starts for itself; it listens on no port."""

    host: str = ""
    master_port: int | None = None
    """MASTER_PORT of `static`, whose MASTER_ADDR is `host`."""


RdzvBackend = ExternalEtcd | StandaloneEtcd | SharedEtcd


def resolve_backend(namespace: argparse.Namespace, conf: RdzvConf) -> RdzvBackend:
    """Return the backend of this command line. Raise UsageError for an impossible combination of options."""
    backend: str = namespace.rdzv_backend
    if namespace.standalone:
        return StandaloneEtcd()
    if backend in ETCD_NAMES:
        return ExternalEtcd(parse_endpoint(namespace.rdzv_endpoint))
    if backend == "c10d":
        return _c10d(namespace, conf)
    if backend == "static":
        return _static(namespace, conf)
    why = _UNSUPPORTED.get(backend, "the known backends are etcd, c10d and static (or use --standalone)")
    raise UsageError(f"--rdzv-backend {backend}: {why}")


def _c10d(namespace: argparse.Namespace, conf: RdzvConf) -> RdzvBackend:
    if not namespace.rdzv_endpoint:
        raise UsageError("--rdzv-endpoint is missing: HOST:PORT, HOST being one of the nodes (or use --standalone)")
    host, port = parse_single_endpoint(namespace.rdzv_endpoint, C10D_PORT)
    single = parse_nnodes(namespace.nnodes).max == 1 and is_loopback(host) and conf.is_host is not False
    return StandaloneEtcd() if single or not port else SharedEtcd(host=host, port=port, is_owner=conf.is_host)


def _static(namespace: argparse.Namespace, conf: RdzvConf) -> RdzvBackend:
    nodes = parse_nnodes(namespace.nnodes)
    has_no_address = not namespace.rdzv_endpoint and namespace.master_port is None
    if has_no_address and nodes.max == 1:
        return StandaloneEtcd()
    master_port = values.parse_port("master-port", namespace.master_port or str(STATIC_PORT))
    host, port = namespace.master_addr.strip("[]"), master_port
    if namespace.rdzv_endpoint:
        host, port = parse_single_endpoint(namespace.rdzv_endpoint, master_port)
    rank = values.parse_positive_int("node-rank", namespace.node_rank or "0")
    if rank >= nodes.max:
        raise UsageError(f"--node-rank {rank}: with --nnodes {namespace.nnodes} the highest rank is {nodes.max - 1}")
    if nodes.max == 1 and not conf.etcd_port and (is_loopback(host) or not namespace.rdzv_endpoint):
        return StandaloneEtcd(host, port)
    return SharedEtcd(host=host, port=conf.etcd_port or port + 1, is_owner=rank == 0, master_port=port)
