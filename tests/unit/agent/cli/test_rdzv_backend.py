"""The rendezvous backend of a command line, for each of torchrun's backends."""

import pytest

from elasticjob_agent.cli.options import build_parser
from elasticjob_agent.cli.rdzv_backend import ExternalEtcd, RdzvBackend, StandaloneEtcd, resolve_backend
from elasticjob_agent.cli.rdzv_conf import parse_conf
from elasticjob_agent.errors import UsageError
from elasticjob_agent.shared_etcd.address import SharedEtcd


def backend_of(line: str) -> RdzvBackend:
    """Return the backend of a command line."""
    namespace = build_parser({}).parse_args([*line.split(), "train.py"])
    return resolve_backend(namespace, parse_conf(namespace.rdzv_conf))


def hosted(host: str, port: int, *, owner: bool | None = None, master: int | None = None) -> SharedEtcd:
    return SharedEtcd(host=host, port=port, is_owner=owner, master_port=master)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", StandaloneEtcd()),
        ("--nnodes 1:1", StandaloneEtcd()),
        ("--standalone --nnodes 2 --rdzv-backend c10d --rdzv-endpoint h:1", StandaloneEtcd()),
        ("--rdzv-backend etcd --rdzv-endpoint h", ExternalEtcd(("h:2379",))),
        ("--rdzv-backend elasticjob --rdzv-endpoint a:1,b:2", ExternalEtcd(("a:1", "b:2"))),
        ("--rdzv-backend c10d --rdzv-endpoint h", hosted("h", 29400)),
        ("--rdzv-backend c10d --rdzv-endpoint h:1 --rdzv-conf is_host=1", hosted("h", 1, owner=True)),
        ("--rdzv-backend c10d --rdzv-endpoint [fd00::1]:7", hosted("fd00::1", 7)),
        ("--rdzv-backend c10d --rdzv-endpoint localhost:0", StandaloneEtcd()),
        ("--nnodes 2", hosted("127.0.0.1", 29501, owner=True, master=29500)),
        ("--master-port 7", StandaloneEtcd("127.0.0.1", 7)),
        ("--master-addr h --master-port 7", StandaloneEtcd("h", 7)),
        ("--rdzv-endpoint localhost:7", StandaloneEtcd("localhost", 7)),
        ("--rdzv-endpoint h:7", hosted("h", 8, owner=True, master=7)),
        ("--master-port 7 --rdzv-conf etcd_port=9", hosted("127.0.0.1", 9, owner=True, master=7)),
        ("--rdzv-backend c10d --rdzv-endpoint localhost:7", StandaloneEtcd()),
        ("--rdzv-backend c10d --rdzv-endpoint 127.0.0.2:7", StandaloneEtcd()),
        ("--rdzv-backend c10d --rdzv-endpoint localhost:7 --nnodes 1:2", hosted("localhost", 7)),
        ("--rdzv-backend c10d --rdzv-endpoint localhost:7 --rdzv-conf is_host=0", hosted("localhost", 7, owner=False)),
        ("--nnodes 2 --node-rank 1 --master-addr h --master-port 7", hosted("h", 8, owner=False, master=7)),
        ("--nnodes 2 --rdzv-endpoint h:7 --rdzv-conf etcd_port=9", hosted("h", 9, owner=True, master=7)),
        ("--nnodes 2 --master-addr [fd00::1]", hosted("fd00::1", 29501, owner=True, master=29500)),
    ],
)
def test_each_command_line_has_its_backend(line: str, expected: RdzvBackend) -> None:
    assert backend_of(line) == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--rdzv-backend etcd", "--rdzv-endpoint is missing"),
        ("--rdzv-backend c10d", "--rdzv-endpoint is missing"),
        ("--rdzv-backend c10d --rdzv-endpoint a:1,b:1", "only --rdzv-backend etcd takes several endpoints"),
        ("--rdzv-backend etcd-v2 --rdzv-endpoint h:1", "API v2 is obsolete"),
        ("--rdzv-backend zeus", "the known backends are etcd, c10d and static"),
        ("--nnodes 2 --node-rank 2", "the highest rank is 1"),
        ("--nnodes 2 --master-port http", "it must be a port"),
    ],
)
def test_an_impossible_backend_is_refused(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        backend_of(line)


def test_an_ipv6_address_is_dialled_in_brackets() -> None:
    assert (hosted("fd00::1", 7).target, hosted("h", 7).target) == ("[fd00::1]:7", "h:7")
