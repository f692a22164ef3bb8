"""What asker, guests and workers say to each other: one line of JSON, then as many bytes as it says; and what it means.

Whoever connects says first who it is and shows the call's key, which only those have who can read the rendezvous'
etcd. The connection is as open to listeners as that etcd is. Nothing is unpickled that did not come with the key.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

LINE_LIMIT = 64 * 1024
CHUNK_BYTES = 1 << 20
TAKEN = b"ok\n"
"""The asker has a result, whole; until then whoever sends it does not end."""
OVER = b"over\n"
"""The asker's last word to a guest: the call has its result."""
JOIN, RESULT = "join", "result"


@dataclass(frozen=True, slots=True)
class Invitation:
    """Where the asker is; what is in etcd."""

    host: str
    port: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
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

    key: str
    kind: str
    host: str
    round: int = 0
    rank: int = 0
    world_size: int = 0
    how: str = ""
    """How the function ended: a kind of `function_child`."""
    size: int = 0


def line_of(record: Invitation | Terms | Hello) -> bytes:
    """A record as a line."""
    return json.dumps(asdict(record)).encode() + b"\n"


def fields_of(line: bytes) -> dict[str, Any]:
    """A line's fields; raises ValueError."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"{found!r:.60} is no record")  # noqa: TRY004  # as for any other line that is none
    return found
