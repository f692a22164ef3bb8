"""PURE: where the nodes of a command-line job meet, from --rdzv-backend and what belongs to it.

torchrun's backends, over etcd: `etcd` is one that is there; with `c10d` the endpoint's host starts one at the endpoint;
with `static` node rank 0 starts one beside MASTER_PORT. A single node that no other can join has one of its own.
"""

import argparse
import ipaddress
from dataclasses import dataclass

from elasticjob_agent.cli import values
from elasticjob_agent.cli.options import UsageError
from elasticjob_agent.cli.rdzv_conf import RdzvConf
from elasticjob_agent.cli.values import C10D_PORT, STATIC_PORT

ETCD_NAMES = ("etcd", "elasticjob")
_UNSUPPORTED = {
    "etcd-v2": "etcd's API v2 is history; --rdzv-backend etcd uses v3 of the same servers",
}


@dataclass(frozen=True, slots=True)
class ExternalEtcd:
    """An etcd that is there already."""

    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneEtcd:
    """An etcd of this agent's own, which listens at no port."""

    host: str = ""
    master_port: int | None = None
    """Static: MASTER_PORT, with `host` as MASTER_ADDR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEtcd:
    """An etcd that one of the nodes starts at host:port."""

    host: str
    port: int
    is_owner: bool | None
    """This node starts it; None: if the host is this one."""
    master_port: int | None = None
    """Static: MASTER_PORT, with `host` as MASTER_ADDR."""
    or_there: bool = False
    """An etcd that listens there already is as good."""

    @property
    def target(self) -> str:
        """Where everybody finds it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


RdzvBackend = ExternalEtcd | StandaloneEtcd | SharedEtcd


def resolve_backend(namespace: argparse.Namespace, conf: RdzvConf) -> RdzvBackend:
    """Where to meet; UsageError for what cannot be."""
    backend: str = namespace.rdzv_backend
    if namespace.standalone:
        return StandaloneEtcd()
    if backend in ETCD_NAMES:
        return ExternalEtcd(values.parse_endpoint(namespace.rdzv_endpoint))
    if backend == "c10d":
        return _c10d(namespace, conf)
    if backend == "static":
        return _static(namespace, conf)
    why = _UNSUPPORTED.get(backend, "known are etcd, c10d and static (or --standalone)")
    raise UsageError(f"--rdzv-backend {backend}: {why}")


def _c10d(namespace: argparse.Namespace, conf: RdzvConf) -> RdzvBackend:
    if not namespace.rdzv_endpoint:
        raise UsageError("--rdzv-endpoint is missing: HOST:PORT, HOST being one of the nodes (or use --standalone)")
    host, port = _split(namespace.rdzv_endpoint, C10D_PORT)
    single = values.parse_nnodes(namespace.nnodes).max == 1 and is_loopback(host) and conf.is_host is not False
    return StandaloneEtcd() if single or not port else SharedEtcd(host=host, port=port, is_owner=conf.is_host)


def _static(namespace: argparse.Namespace, conf: RdzvConf) -> RdzvBackend:
    nodes = values.parse_nnodes(namespace.nnodes)
    nothing_said = not namespace.rdzv_endpoint and namespace.master_port is None
    if nothing_said and nodes.max == 1:
        return StandaloneEtcd()
    master_port = values.parse_port("master-port", namespace.master_port or str(STATIC_PORT))
    host, port = namespace.master_addr.strip("[]"), master_port
    if namespace.rdzv_endpoint:
        host, port = _split(namespace.rdzv_endpoint, master_port)
    rank = values.parse_positive_int("node-rank", namespace.node_rank or "0")
    if rank >= nodes.max:
        raise UsageError(f"--node-rank {rank}: with --nnodes {namespace.nnodes} the last one is {nodes.max - 1}")
    if nodes.max == 1 and not conf.etcd_port and (is_loopback(host) or not namespace.rdzv_endpoint):
        return StandaloneEtcd(host, port)
    return SharedEtcd(host=host, port=conf.etcd_port or port + 1, is_owner=rank == 0, master_port=port)


def is_loopback(host: str) -> bool:
    """No other machine can dial this host. A name other than localhost may be this machine's for others, too."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(endpoint: str, default_port: int) -> tuple[str, int]:
    targets = values.parse_endpoint(endpoint, default_port)
    if len(targets) > 1:
        raise UsageError(f"--rdzv-endpoint {endpoint}: only with --rdzv-backend etcd may there be several")
    host, _, port = targets[0].rpartition(":")
    return host.strip("[]"), int(port)
