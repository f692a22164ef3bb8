"""Machines of a soak: network namespaces with names of their own, at a switch; each cable can be unplugged.

For a process in a network namespace of its own, so that this machine's network is not changed. An unplugged cable
causes neither a reset nor a refusal, only silence.
"""

import contextlib
import subprocess
from collections.abc import Iterator

SWITCH_ADDRESS = "10.78.1.1"
_SWITCH = "switch"


class Machine:
    """One machine: an address, a host name, and the command that starts a program there."""

    def __init__(self, number: int, pid: int) -> None:
        """`pid` is a process that keeps the namespaces alive."""
        self.name = f"node-{number}"
        self.address = f"10.78.1.{10 + number}"
        self.inside = ("nsenter", "--target", str(pid), "--net", "--uts")
        self._cable = f"cable-{number}"
        _run("ip", "link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _run("ip", "link", "set", self._cable, "master", _SWITCH, "up")
        for words in ("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"):
            _run(*self.inside, "ip", *words.split())
        _run(*self.inside, "hostname", self.name)

    def disconnect(self) -> None:
        """Drop all packets from and to this machine."""
        _run("ip", "link", "set", self._cable, "down")

    def connect(self) -> None:
        """Pass all packets."""
        _run("ip", "link", "set", self._cable, "up")


@contextlib.contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """So many machines that reach each other and `SWITCH_ADDRESS`."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", _SWITCH, "type", "bridge")
    _run("ip", "address", "add", f"{SWITCH_ADDRESS}/24", "dev", _SWITCH)
    _run("ip", "link", "set", _SWITCH, "up")
    with contextlib.ExitStack() as stack:
        yield [Machine(number, stack.enter_context(_namespaces())) for number in range(1, count + 1)]


@contextlib.contextmanager
def _namespaces() -> Iterator[int]:
    command = ["unshare", "--net", "--uts", "sh", "-c", "echo up; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        try:
            yield holder.pid
        finally:
            holder.kill()


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
