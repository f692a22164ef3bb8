"""Another user of this machine, with the programs of this tree and without its user's rights."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from testing.waiting import scaled

UID = 65534
"""The uid of the user `nobody`."""
LIMIT_S = 60.0
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

_BECOME = f"""
import encodings.idna, os, socket, sys

os.setgroups([])
os.setresgid({UID}, {UID}, {UID})
os.setresuid({UID}, {UID}, {UID})
"""
"""Runs first, with everything imported: our files may be unreadable for the other user. Hence gRPC by hand, too.

Not `subprocess` with a `user`: it would fork, and a process that uses gRPC may not survive a fork.
"""
_DELETE = """
def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

def header(*words):
    return b"\\0" + b"".join(bytes([len(word)]) + word.encode() for word in words)

def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data

def deletes(target):
    if target.startswith("unix:"):
        dialed = socket.socket(socket.AF_UNIX)
        dialed.connect(target[len("unix:"):])
    else:
        host, _, port = target.rpartition(":")
        dialed = socket.create_connection((host.strip("[]"), int(port)), timeout=10)
    names = [(":method", "POST"), (":scheme", "http"), (":path", "/etcdserverpb.KV/DeleteRange"), (":authority", "x"),
             ("content-type", "application/grpc"), ("te", "trailers")]
    asked = field(1, b"/elasticjob/") + field(2, b"/elasticjob0")
    with dialed, dialed.makefile("rb") as answers:
        dialed.settimeout(10)
        dialed.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + frame(4, 0, 0)
                       + frame(1, 4, 1, b"".join(header(*each) for each in names))
                       + frame(0, 1, 1, b"\\0" + len(asked).to_bytes(4, "big") + asked))
        while True:
            head = answers.read(9)
            if len(head) < 9:
                return False
            answers.read(int.from_bytes(head[:3], "big"))
            if head[3] == 0 and head[8] == 1:  # data: it is done
                return True

for target in sys.argv[1:]:
    try:
        if deletes(target):
            print(target)
    except OSError as error:
        print(target, error, file=sys.stderr)
"""
_DIAL = """
print(os.strerror(socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1])))
"""
_LISTEN = """
held = [socket.create_server(("127.0.0.1", int(sys.argv[1])))]
print("listening", flush=True)
sys.stdin.read()
"""


def deletes_all(*targets: str) -> list[str]:
    """Delete every job in the etcd at each of these targets, as the other user; return the targets that allowed it."""
    return _output_of(_DELETE, *targets).split()


def dials(path: str) -> str:
    """Return the error of the other user's connection to this Unix socket."""
    return _output_of(_DIAL, path).strip()


def _output_of(program: str, *words: str) -> str:
    done = subprocess.run(
        _command(program, *words), stdout=subprocess.PIPE, text=True, check=True, timeout=scaled(LIMIT_S)
    )
    return done.stdout


def _command(program: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", _BECOME + program, *words)


@contextlib.contextmanager
def listening(port: int) -> Iterator[None]:
    """The other user listens on this port of the loopback interface, and never answers."""
    command = _command(_LISTEN, str(port))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"listening\n"
        try:
            yield
        finally:
            process.stdin.close()
