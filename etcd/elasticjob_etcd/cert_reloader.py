"""Notices that certificate files were replaced, and makes the connection dial again; it never touches a call itself.

A gRPC channel keeps the certificate that it was opened with, and etcd refuses an expired one. The component that renews
the files (a kubelet with a Secret, an operator) replaces all of them at once by a symbolic link. A periodic `stat` of
three files costs nothing; unusable files are tried again at each check.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Endpoint

CHECK_S = 5.0
"""Between two checks; certificates are renewed hours before they expire."""

log = logging.getLogger(__name__)

_Signature = tuple[tuple[int, int, int], ...]


def certificate_files(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the files that may be replaced while a client of `endpoint` is open."""
    return tuple(path for path in (endpoint.ca_cert, endpoint.cert, endpoint.key) if path)


async def watch_files(files: Sequence[str], redial: Callable[[], Awaitable[None]], *, check_s: float = CHECK_S) -> None:
    """Call `redial` after each change of `files`, until cancelled; if it fails, again at the next check."""
    used, logged = _signature(files), None
    while True:
        await asyncio.sleep(check_s)
        found = _signature(files)
        if found is None or found == used:
            continue
        try:
            await redial()
        except EtcdError as error:
            if logged != found:
                log.warning("the renewed certificate cannot be used yet, the old one remains in use: %s", error)
            logged = found
        else:
            log.info("dialed etcd with the renewed certificate %s", files[-1])
            used = found


def _signature(files: Sequence[str]) -> _Signature | None:
    """Return a value that changes when a file is replaced; None while one is missing."""
    try:
        stats = [os.stat(path) for path in files]  # noqa: PTH116 -- paths are text here, and links are followed
    except OSError:
        return None
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)
