"""Counting accelerators in a file system that looks like that of a machine."""

from pathlib import Path

import pytest

from elasticjob_agent.host import accelerators


def nvidia(root: Path) -> None:
    """Create two GPUs, and devices that are not GPUs."""
    (root / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (root / "dev" / name).touch()


def amd(root: Path) -> None:
    """Create a processor and three GPUs, as the kernel lists them."""
    for node, gpu_id in enumerate(("0", "1234", "5678", "91011")):
        folder = root / "sys/class/kfd/kfd/topology/nodes" / str(node)
        folder.mkdir(parents=True)
        (folder / "gpu_id").write_text(f"{gpu_id}\n")


def intel(root: Path) -> None:
    """Create a discrete GPU, and the integrated graphics of the processor."""
    for number, driver in enumerate(("xe", "i915")):
        device = root / f"sys/class/drm/renderD{128 + number}/device"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x8086\n")
        (device / "driver").symlink_to(root / "drivers" / driver)


def test_gpus_of_nvidia(tmp_path: Path) -> None:
    nvidia(tmp_path)
    assert accelerators.count_gpus({}, tmp_path) == 2


def test_gpus_of_amd(tmp_path: Path) -> None:
    amd(tmp_path)
    assert accelerators.count_gpus({}, tmp_path) == 3


def test_only_discrete_gpus_of_intel_count(tmp_path: Path) -> None:
    intel(tmp_path)
    assert (accelerators.count_xpus({}, tmp_path), accelerators.count_gpus({}, tmp_path)) == (1, 0)


def test_an_empty_machine_has_none(tmp_path: Path) -> None:
    assert (accelerators.count_gpus({}, tmp_path), accelerators.count_xpus({}, tmp_path)) == (0, 0)


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
@pytest.mark.parametrize(("visible", "count"), [("3", 1), ("0, 1,GPU-abc", 3), ("", 0), ("-1", 0)])
def test_variables_that_hide_devices_count(variable: str, visible: str, count: int, tmp_path: Path) -> None:
    nvidia(tmp_path)
    assert accelerators.count_gpus({variable: visible}, tmp_path) == count
