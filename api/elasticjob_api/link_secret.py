"""`P/c/ctl/link`: the key by which the agents of one job know each other on their links; only they can read it.

The first closer draws it and writes it with the job's first world, so that every agent has it before any link is made.
"""

import re
from collections.abc import Callable

from elasticjob_api.errors import RecordError

SECRET_BYTES = 32
_FORM = re.compile(rb"1 ([0-9a-f]{64})")


def new_link_secret(draw: Callable[[], str]) -> bytes:
    """A key of what `draw` gives: eight random hex digits at a time."""
    return bytes.fromhex("".join(draw() for _ in range(SECRET_BYTES // 4)))


def encode_link_secret(secret: bytes) -> bytes:
    """The version and the key in hex digits."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the key of a job's links has {len(secret)} bytes; it must have {SECRET_BYTES}")
    return f"1 {secret.hex()}".encode()


def decode_link_secret(data: bytes) -> bytes:
    """Return the key in `data`; RecordError if corrupt or of another version, without `data` in its message."""
    match = _FORM.fullmatch(data)
    if match is None:
        raise RecordError("the key of the job's links is corrupt, or of another version")
    return bytes.fromhex(match[1].decode())
