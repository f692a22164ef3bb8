"""`P/c/ctl/link`: the secret with which the agents of one job authenticate on their links; only they can read it.

The first leader draws it and writes it with the job's first state, so every agent has it before any link is made.
"""

import re
from collections.abc import Callable

from elasticjob_api.errors import RecordError

SECRET_BYTES = 32
_FORM = re.compile(rb"1 ([0-9a-f]{64})")


def new_link_secret(random_hex: Callable[[], str]) -> bytes:
    """Return a new secret; `random_hex` returns eight random hex digits at a time."""
    return bytes.fromhex("".join(random_hex() for _ in range(SECRET_BYTES // 4)))


def encode_link_secret(secret: bytes) -> bytes:
    """Return the version and the secret in hex digits."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the link secret of a job has {len(secret)} bytes; it must have {SECRET_BYTES}")
    return f"1 {secret.hex()}".encode()


def decode_link_secret(data: bytes) -> bytes:
    """Return the secret in `data`; RecordError, without `data` in it, if it is corrupt or of another version."""
    match = _FORM.fullmatch(data)
    if match is None:
        raise RecordError("the link secret of the job is corrupt, or of another version")
    return bytes.fromhex(match[1].decode())
