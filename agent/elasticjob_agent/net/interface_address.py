"""The address of a network interface that the manifest names (`agent.interface`), for Multus and hostNetwork.

If it is set, the agent's own address is that of the interface instead of the pod's IP. Peers dial it, and workers get
it as MASTER_ADDR. IPv4 is preferred to IPv6; link-local addresses are skipped.
"""

import socket

from elasticjob_agent.errors import UsageError

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def interface_address(name: str) -> str:
    """Return the address of the interface `name`.

    Raises:
        UsageError: the interface does not exist, or has no address that other pods can reach.
    """
    import psutil  # noqa: PLC0415  # 7 ms of a start; few agents need it

    known = psutil.net_if_addrs()
    if name not in known:
        raise UsageError(f"agent.interface is {name}, but this pod has only {', '.join(sorted(known))}")
    usable = [each for each in known[name] if each.family in _FAMILIES and "%" not in each.address]
    if not usable:
        raise UsageError(f"agent.interface is {name}, which has no address yet that another pod can reach")
    return str(min(usable, key=lambda each: _FAMILIES.index(each.family)).address)
