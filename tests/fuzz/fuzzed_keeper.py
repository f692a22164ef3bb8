"""A real keeper among good ones while its sessions are fuzzed, and what must be true of it afterwards."""

import asyncio
import random
from pathlib import Path

import psutil

from elasticjob_agent.keep.transfer.handshake import KeeperIdentity
from elasticjob_agent.keep.transfer.session import KeeperCredentials
from elasticjob_agent.keep.volume.paths import VolumePath
from elasticjob_agent.keep.volume.space import used_bytes
from elasticjob_api.kept_steps import History
from elasticjob_api.rendezvous_state import Member
from tests.fuzz.sessions import SessionFuzzer
from tests.integration.keep.keeper_group import SECRET, GroupNode, KeeperGroup, keeper_group
from tests.integration.keep.keepers import JOB, RUN

_MIB = 1 << 20
_SIZE_LIMIT = 16 * _MIB
_MOST_GROWTH = 64 * _MIB
_CREDENTIALS = KeeperCredentials(KeeperIdentity(JOB, RUN, Member(9, "0000000b")), bytes.fromhex(SECRET))


async def fuzz_keeper(folder: Path, seed: int, *, sessions: int | None = None, within_s: float | None = None) -> int:
    """Return how many pieces one of two keepers got while both copied steps; fail if they did it any harm."""
    async with keeper_group(folder) as group:
        await group.round(*[await group.add(slot, size_limit=_SIZE_LIMIT) for slot in range(2)])
        assert group.lineage is not None
        fuzzed = group.members[0]
        process = psutil.Process(fuzzed.client.pid)
        memory, names = process.memory_info().rss, _names(folder)
        fuzzer = SessionFuzzer(fuzzed.address, _CREDENTIALS, group.lineage, random.Random(seed))
        work = asyncio.create_task(asyncio.to_thread(fuzzer.run, sessions=sessions, within_s=within_s))
        number = 0
        while not work.done():
            if not any(list(node.incoming.iterdir()) for node in group.members):  # the last step is taken
                group.publish(number := number + 1, 1000)
            await asyncio.wait([work], timeout=0.05)
        sent = await work
        assert (fuzzed.client.restarts, fuzzed.client.pid) == (0, process.pid), "the keeper ended"
        assert process.memory_info().rss - memory < _MOST_GROWTH
        assert _names(folder) == names, "something is written outside of the volumes"
        assert {path.name for path in fuzzed.volume.iterdir()} <= set(VolumePath.NAMES)
        paths = VolumePath(fuzzed.volume)
        assert used_bytes([paths.held, paths.partial, paths.incoming, paths.kept, paths.pinned]) <= _SIZE_LIMIT
        await _serve_others(group, fuzzed)
        return sent


async def _serve_others(group: KeeperGroup, fuzzed: GroupNode) -> None:
    """Let the keeper take, copy and serve a step, in a round that descends from nothing that was put there before."""
    group.lineage, group.history = None, History()
    await group.round(*reversed(group.members))
    assert fuzzed.client.holdings == {}
    parts, step = group.publish(1000), group.step(1000)
    await group.until_committed(step)
    assert {index: fuzzed.files(step, index) for index in parts} == parts
    fetcher = await group.add(3)
    sources = {index: [fuzzed.address] for index in parts}
    kept = await fetcher.client.fetch(step, sources, 30.0)
    assert {path.name for path in kept.iterdir()} == {name for files in parts.values() for name in files}


def _names(folder: Path) -> list[Path]:
    return [*sorted(folder.parent.iterdir()), *sorted(folder.iterdir())]
