"""The messages between driver, joining nodes and workers: one line of JSON, then as many bytes as it announces.

The driver begins with a challenge. The other end answers with a line that identifies it, sealed with the call's key.
All further data of either end is sealed too, and is unpickled only after its seal was checked. The key is derived from
the secret that the nodes share. Without a secret the key is in the invitation, and all clients of the rendezvous' etcd
can read it. The data is not encrypted.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

LINE_LIMIT = 64 * 1024
CHUNK_BYTES = 1 << 20
HELLO, CALL, RESULT_HELLO = b"hello", b"call", b"result"
"""Purposes of seals: the hello of a connection, the call for a node, the result of a rank."""
ACK = b"taken"
"""Purpose of the seal by which the driver confirms a whole result; until then its sender waits."""
DONE = b"over"
"""Purpose of the seal of the driver's last message to a node: the call has ended."""
JOIN, RESULT = "join", "result"


@dataclass(frozen=True, slots=True)
class Invitation:
    """The address of the driver, as in etcd; without the key there if the nodes share a secret."""

    host: str
    port: int
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSpec:
    """The parameters that all nodes of a call share; the pickled function follows as bytes."""

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
    """The first line of a connection; a RESULT uses all fields, another `kind` only the first three."""

    nonce: str
    """The challenge to the driver, which seals its answers with it."""
    kind: str
    host: str
    round: int = 0
    rank: int = 0
    world_size: int = 0
    outcome: str = ""
    """The end of the function: one of the kinds in `function_child`."""
    size: int = 0


def line_of(record: Invitation | CallSpec | Hello) -> bytes:
    """Return a record as a line."""
    return json.dumps(asdict(record)).encode() + b"\n"


def fields_of(line: bytes) -> dict[str, Any]:
    """Return the fields of a line; raise ValueError."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"{found!r:.60} is not a record")  # noqa: TRY004  # as for any other invalid line
    return found
