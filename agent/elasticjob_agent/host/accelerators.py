"""The number of accelerators that this machine shows, from the file system: no driver is opened, no library loaded.

NVIDIA GPUs are counted by /dev/nvidia<n>, AMD GPUs by the kernel's list of compute nodes, Intel GPUs by the vendor of
the render nodes. Variables with which a user hides devices count as in the vendors' own libraries.
"""

from collections.abc import Mapping
from pathlib import Path

ROOT = Path("/")
_INTEL = "0x8086"
_DISCRETE_INTEL = "xe"
_GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_XPU_VARIABLE = "ZE_AFFINITY_MASK"


def count_gpus(environment: Mapping[str, str], root: Path = ROOT) -> int:
    """Return the number of visible GPUs: of NVIDIA, or if there are none, of AMD."""
    for variable in _GPU_VARIABLES:
        if variable in environment:
            return _count_named(environment[variable])
    return _nvidia(root) or _amd(root)


def count_xpus(environment: Mapping[str, str], root: Path = ROOT) -> int:
    """Return the number of visible discrete GPUs of Intel. Integrated graphics use another driver and do not count."""
    if _XPU_VARIABLE in environment:
        return _count_named(environment[_XPU_VARIABLE])
    return sum(1 for device in (root / "sys/class/drm").glob("renderD*/device") if _is_xpu(device))


def _count_named(visible: str) -> int:
    return len([device for device in visible.split(",") if device.strip() and device.strip() != "-1"])


def _nvidia(root: Path) -> int:
    return sum(1 for path in (root / "dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal())


def _amd(root: Path) -> int:
    ids = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/gpu_id")
    return sum(1 for path in ids if _text(path) not in {"", "0"})


def _is_xpu(device: Path) -> bool:
    return _text(device / "vendor") == _INTEL and (device / "driver").resolve().name == _DISCRETE_INTEL


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
