"""Real keepers with their volumes in memory, for measurements: they publish, copy and fetch as on nodes of a job."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from elasticjob_agent.node.keep_settings import TlsFiles
from elasticjob_api.kept_steps import KeptStep
from elasticjob_operator.tls.ca import CertificateAuthority
from tests.integration.keep.certificate_files import CertificateFiles
from tests.integration.keep.keeper_group import GroupNode, KeeperGroup

MIB = 1 << 20
MEMORY = "/dev/shm"
_LONGEST_S = 120.0


class TimedGroup(KeeperGroup):
    """Keepers of one job; it times how long each node takes to have the restored step for its workers."""

    def __init__(self, folder: Path, *, copies: int = 1, bandwidth: int = 0, tls: TlsFiles | None = None) -> None:
        super().__init__(folder, copies=copies, bandwidth=bandwidth, tls=tls)
        self.restored_s: dict[GroupNode, float] = {}

    async def _restore(self, node: GroupNode, step: KeptStep | None, live: Sequence[GroupNode]) -> None:
        began_s = time.monotonic()
        if step is not None and len(node.client.holdings.get(step, ())) == step.parts:
            node.kept = await node.client.restore(step)
        else:
            await super()._restore(node, step, live)
        self.restored_s[node] = time.monotonic() - began_s


@asynccontextmanager
async def timed_group(*, copies: int = 1, bandwidth: int = 0, is_secure: bool = False) -> AsyncIterator[TimedGroup]:
    """Yield a group without nodes, with mutual TLS if it `is_secure`; it is closed at the end."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="keep-bench-") as folder:
        files = (
            CertificateFiles(Path(folder, "tls"), CertificateAuthority.create(now_s=time.time())) if is_secure else None
        )
        group = TimedGroup(Path(folder), copies=copies, bandwidth=bandwidth, tls=files.paths if files else None)
        try:
            yield group
        finally:
            await group.close()


def draft_of(node: GroupNode, name: str, size: int) -> Path:
    """Write a part, which is not published yet; return its directory."""
    draft = node.incoming / f"draft-{name}"
    draft.mkdir()
    write_bytes(draft / name, size)
    return draft


def write_bytes(path: Path, size: int) -> None:
    """Write a file of this size that has no two equal pages in a row."""
    piece = bytes(range(256)) * (MIB // 256)
    with path.open("wb") as file:
        for number in range(-(-size // MIB)):
            file.write((number.to_bytes(8) + piece[8:])[: size - number * MIB])


async def time_until(condition: Callable[[], object], *, since_s: float | None = None) -> float:
    """Return the seconds until a condition holds, looked at each millisecond; raise AssertionError if it never does."""
    began_s = time.monotonic() if since_s is None else since_s
    while not condition():
        if time.monotonic() - began_s > _LONGEST_S:
            raise AssertionError(f"not within {_LONGEST_S:g} s")
        await asyncio.sleep(0.001)
    return time.monotonic() - began_s


async def timed(act: Awaitable[object]) -> float:
    """Return how many seconds something takes."""
    began_s = time.monotonic()
    await act
    return time.monotonic() - began_s
