"""The Python of this machine that has torch, for pods: its folders are mounted into the nodes, and then into pods.

torch takes 4.7 GB, so no image has it. Each folder has the same path everywhere, because the virtual environment names
the Python that it was made from by its path.
"""

from pathlib import Path
from typing import Any, NamedTuple

from e2e.programs import ProgramFailed, run

_INSTALL_LIMIT_S = 1200.0
_BASE = "import os, sys; print(sys.base_prefix, os.path.realpath(sys.executable), sep='\\n')"


class TorchPython(NamedTuple):
    """An interpreter with torch."""

    path: Path
    """The command of the workers."""
    binary: Path
    """The file that the command executes."""
    folders: tuple[Path, ...]
    """The virtual environment, and the Python that it was made from."""

    def add_to(self, pod: dict[str, Any], container: dict[str, Any]) -> None:
        """Mount the folders into this container of the pod, which may then read them as this machine's user."""
        for number, folder in enumerate(self.folders):
            name = f"python-{number}"
            pod.setdefault("volumes", []).append({"name": name, "hostPath": {"path": str(folder), "type": "Directory"}})
            mount = {"name": name, "mountPath": str(folder), "readOnly": True}
            container.setdefault("volumeMounts", []).append(mount)
        pod["securityContext"] = {"runAsUser": 0}  # the folders are usually below a home that is closed to others


def find_torch_python() -> TorchPython:
    """Return it; it is installed if it is missing, which takes a minute."""
    path = Path(run("hack/torch-venv", limit_s=_INSTALL_LIMIT_S).strip())
    base, binary = (Path(line) for line in run(path, "-c", _BASE).splitlines())
    if base == Path("/usr"):
        raise ProgramFailed(
            f"{path} was made from the system's Python; in a pod its folder {base} would hide that of the image. "
            f"Remove {path.parents[1]}, and set PYTHON_FOR_TORCH to a Python with a folder of its own."
        )
    return TorchPython(path, binary, (path.parents[1], base))
