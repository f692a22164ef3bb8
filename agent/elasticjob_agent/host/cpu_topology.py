"""Read the NUMA nodes, sockets, cores and caches of this machine from /sys; `numa` binds workers by them.

The result contains only processors that this process may use, so none that a container is denied. A machine without
NUMA has one node.

NVIDIA GPUs are listed with the node that the kernel reports for them. They are in the order of their bus addresses,
which is the driver's order with CUDA_DEVICE_ORDER=PCI_BUS_ID. Only GPUs that the driver shows here are listed: a
container can read the machine's whole bus, but does not have all of its GPUs.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SYSTEM = Path("/sys")
DRIVER = Path("/proc/driver/nvidia/gpus")
"""It has a folder for each GPU, named by its bus address; a container runtime hides the GPUs of other containers."""
_NVIDIA, _DISPLAY = "0x10de", "0x03"

Cpus = frozenset[int]


@dataclass(frozen=True, slots=True)
class Topology:
    """Groups of processors, sorted by the smallest processor of each group."""

    nodes: dict[int, Cpus]
    """NUMA node → its processors; nodes without processors are omitted."""
    sockets: tuple[Cpus, ...]
    cores: tuple[Cpus, ...]
    caches: tuple[Cpus, ...]
    """Groups of processors that share a last-level cache."""
    gpus: tuple[int, ...]
    """The NUMA node of each GPU; -1 if the kernel does not know it."""


def read_topology(allowed: Iterable[int] | None = None, system: Path = SYSTEM, driver: Path = DRIVER) -> Topology:
    """Return the topology of the processors `allowed`; None: those that this process may use.

    Raises:
        OSError: a file of the kernel cannot be read.
        ValueError: a file of the kernel has an unknown format.
    """
    usable = frozenset(os.sched_getaffinity(0) if allowed is None else allowed)
    nodes = {}
    for folder in sorted((system / "devices/system/node").glob("node[0-9]*"), key=_number):
        if cpus := parse_cpus((folder / "cpulist").read_text()) & usable:
            nodes[_number(folder)] = cpus
    cpu_folder = system / "devices/system/cpu"
    return Topology(
        nodes=nodes or {0: usable},
        sockets=_by_number(cpu_folder, usable, "topology/physical_package_id"),
        cores=_by_list(cpu_folder, usable, "topology/thread_siblings_list"),
        caches=_by_list(cpu_folder, usable, "cache/index3/shared_cpu_list"),
        gpus=tuple(_gpus(system, driver)),
    )


def parse_cpus(text: str) -> Cpus:
    """Return the processors of a list such as `0-3,8`, the kernel's format; raises ValueError."""
    found: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def format_cpus(cpus: Cpus) -> str:
    """Return processors in the format that `parse_cpus` reads: `0-3,8`."""
    numbers = sorted(cpus)
    firsts = [number for number in numbers if number - 1 not in cpus]
    lasts = [number for number in numbers if number + 1 not in cpus]
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(firsts, lasts, strict=True))


def _number(folder: Path) -> int:
    return int("".join(filter(str.isdigit, folder.name)))


def _by_number(folder: Path, usable: Cpus, file: str) -> tuple[Cpus, ...]:
    groups: dict[str, set[int]] = {}
    for cpu in sorted(usable):
        groups.setdefault(_text(folder / f"cpu{cpu}" / file), set()).add(cpu)
    return tuple(map(frozenset, groups.values()))


def _by_list(folder: Path, usable: Cpus, file: str) -> tuple[Cpus, ...]:
    """Return the groups that the files of the processors list; a processor without a list is a group of its own."""
    groups = {(parse_cpus(_text(folder / f"cpu{cpu}" / file)) & usable) or frozenset({cpu}) for cpu in usable}
    return tuple(sorted(groups, key=min))


def _gpus(system: Path, driver: Path) -> Iterable[int]:
    here = {path.name for path in driver.glob("*")}
    for device in sorted((system / "bus/pci/devices").glob("*"), key=lambda path: path.name):
        if here and device.name not in here:
            continue
        if _text(device / "vendor") == _NVIDIA and _text(device / "class").startswith(_DISPLAY):
            yield int(_text(device / "numa_node") or -1)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
