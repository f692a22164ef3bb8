"""Files of kernels that describe machines."""

from pathlib import Path


def cpus(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def machine(folder: Path, *, nodes: int, cores: int, threads: int = 2, gpus: tuple[int, ...] = ()) -> Path:
    """Write the kernel's files of a machine with so many nodes, each a socket with two last-level caches."""
    total = nodes * cores
    for node in range(nodes):
        mine = [core + thread * total for core in range(node * cores, (node + 1) * cores) for thread in range(threads)]
        write(folder / f"devices/system/node/node{node}/cpulist", ",".join(map(str, mine)))
        for cpu in mine:
            place = folder / f"devices/system/cpu/cpu{cpu}"
            core = cpu % total
            half = [
                other for other in mine if (other % total % cores) // (cores // 2) == (core % cores) // (cores // 2)
            ]
            write(place / "topology/physical_package_id", str(node))
            write(place / "topology/thread_siblings_list", ",".join(str(core + t * total) for t in range(threads)))
            write(place / "cache/index3/shared_cpu_list", ",".join(map(str, half)))
    for number, node in enumerate(gpus):
        device = folder / f"bus/pci/devices/0000:{number:02x}:00.0"
        for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("numa_node", str(node))):
            write(device / name, text)
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
