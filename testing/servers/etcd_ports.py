"""Where the etcd that a process has started listens for TCP, as the kernel knows it."""

from collections.abc import Set as AbstractSet

import psutil


def etcds_below(pid: int) -> set[psutil.Process]:
    """Every etcd that this process, or one that it has started, has started."""
    return {each for each in psutil.Process(pid).children(recursive=True) if each.name().startswith("etcd")}


def etcd_addresses(pid: int, *, besides: AbstractSet[psutil.Process] = frozenset()) -> list[str]:
    """The addresses at which the one etcd below this process listens, `besides` these; none if it has no port."""
    (etcd,) = etcds_below(pid) - besides
    found = etcd.net_connections("inet")
    return sorted({each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN})
