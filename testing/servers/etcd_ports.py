"""The TCP addresses of an etcd that a process has started, as the kernel knows them."""

from collections.abc import Set as AbstractSet

import psutil


def etcds_below(pid: int) -> set[psutil.Process]:
    """Return every etcd that this process or a descendant has started."""
    return {each for each in psutil.Process(pid).children(recursive=True) if each.name().startswith("etcd")}


def etcd_addresses(pid: int, *, besides: AbstractSet[psutil.Process] = frozenset()) -> list[str]:
    """Return the addresses of the one etcd below this process, except `besides`; none if it has no port."""
    (etcd,) = etcds_below(pid) - besides
    found = etcd.net_connections("inet")
    return sorted({each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN})
