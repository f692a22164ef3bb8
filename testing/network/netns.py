"""A second machine with regard to networks: a network namespace at the end of a cable that can be unplugged.

For a process in a network namespace of its own (`run_in_own_network`), so that this machine's network is not changed.
An unplugged cable causes neither a reset nor a refusal, only silence. Earlier packets arrive after it is plugged in
again, as between real machines.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from testing.waiting import scaled

_ROOT = Path(__file__).resolve().parents[2]
_WAYS = (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net"))
"""For root, and for other users if they may have user namespaces."""
HOST_ADDRESS, NAMESPACE_ADDRESS = "10.77.1.1", "10.77.1.2"


def run_in_own_network(module: str, *arguments: str, within_s: float) -> None:
    """Run a module as a program with a network of its own; raise AssertionError with its output if it fails."""
    command = [*_way(), sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=scaled(within_s))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _way() -> tuple[str, ...]:
    for way in _WAYS:
        if not subprocess.run([*way, "true"], capture_output=True, check=False).returncode:
            return way
    raise AssertionError("no network namespace can be made here; these tests need root, or user namespaces")


class NetworkNamespace:
    """A link from here (`HOST_ADDRESS`) to a machine (`NAMESPACE_ADDRESS`); `inside` starts a command there."""

    def __init__(self, machine: int) -> None:
        self.inside = ("nsenter", "--target", str(machine), "--net")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(machine))
        _ip("address", "add", f"{HOST_ADDRESS}/24", "dev", "here")
        _ip("link", "set", "here", "up")
        for words in ("link set lo up", f"address add {NAMESPACE_ADDRESS}/24 dev there", "link set there up"):
            subprocess.run([*self.inside, "ip", *words.split()], check=True)

    def disconnect(self) -> None:
        """Drop all packets."""
        _ip("link", "set", "here", "down")

    def connect(self) -> None:
        """Pass all packets."""
        _ip("link", "set", "here", "up")


@contextlib.contextmanager
def network_namespace() -> Iterator[NetworkNamespace]:
    """A namespace that is removed at the end."""
    machine = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo up; exec sleep 1000"], stdout=subprocess.PIPE)
    try:
        assert machine.stdout is not None
        assert machine.stdout.readline() == b"up\n"
        yield NetworkNamespace(machine.pid)
    finally:
        machine.kill()
        machine.wait()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
