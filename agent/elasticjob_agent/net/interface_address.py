"""The address of a network interface that the manifest names (`agent.interface`), for Multus and hostNetwork.

Where it is set the agent's own address is that of the interface instead of the pod's IP: peers link to it, and workers
get it as MASTER_ADDR. IPv4 before IPv6; link-local addresses are skipped.
"""

import socket

from elasticjob_agent.cli.options import UsageError

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def interface_address(name: str) -> str:
    """Its address; UsageError when there is no such interface, or it has no address that others can use."""
    import psutil  # noqa: PLC0415  # 7 ms of a start that hardly any agent has to pay

    known = psutil.net_if_addrs()
    if name not in known:
        raise UsageError(f"agent.interface is {name}, and this pod has only {', '.join(sorted(known))}")
    usable = [each for each in known[name] if each.family in _FAMILIES and "%" not in each.address]
    if not usable:
        raise UsageError(f"agent.interface is {name}, which has no address yet that another pod could reach")
    return str(min(usable, key=lambda each: _FAMILIES.index(each.family)).address)
