"""What asker, guests and workers say to each other: one line of JSON, then as many bytes as it says; and what it means.

The asker begins with a challenge. The other end answers with a line that tells who it is, sealed with the call's key;
all that follows from either end is sealed too, and nothing is unpickled before its seal was checked. The key comes from
the secret that the nodes share. Where there is none it is in the invitation, for all who can read the rendezvous' etcd.
The data are not encrypted.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

LINE_LIMIT = 64 * 1024
CHUNK_BYTES = 1 << 20
HELLO, CALL, RESULT_HELLO = b"hello", b"call", b"result"
"""What is sealed: who connects, what a guest is given, what a rank brings."""
ACK = b"taken"
"""The asker has a result, whole; until then whoever sends it does not end."""
DONE = b"over"
"""The asker's last word to a guest: the call has ended."""
JOIN, RESULT = "join", "result"


@dataclass(frozen=True, slots=True)
class Invitation:
    """Where the asker is; what is in etcd, there without the key if the nodes share a secret."""

    host: str
    port: int
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSpec:
    """What all nodes of a call must agree on; the function itself follows as bytes."""

    run_id: str
    nprocs: int
    min_nodes: int
    max_nodes: int
    max_restarts: int
    join_timeout_s: float
    last_call_timeout_s: float
    max_result_bytes: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first line of a connection; `kind` says which, the rest is of RESULT."""

    nonce: str
    """The challenge to the asker, which seals its answers with it."""
    kind: str
    host: str
    round: int = 0
    rank: int = 0
    world_size: int = 0
    outcome: str = ""
    """How the function ended: a kind of `function_child`."""
    size: int = 0


def line_of(record: Invitation | CallSpec | Hello) -> bytes:
    """A record as a line."""
    return json.dumps(asdict(record)).encode() + b"\n"


def fields_of(line: bytes) -> dict[str, Any]:
    """A line's fields; raises ValueError."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"{found!r:.60} is no record")  # noqa: TRY004  # as for any other line that is none
    return found
