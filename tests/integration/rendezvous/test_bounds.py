"""Data of agents in etcd remains small, however long a job runs and however it fails, and each write fits."""

from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_api.records import WorkerFailure
from tests.integration.rendezvous.conftest import MakeGroup
from tests.integration.rendezvous.member_group import ScriptedWorkers


async def test_keys_of_nodes_that_left_in_earlier_rounds_are_deleted(make_group: MakeGroup) -> None:
    """Tombstones of nodes that left in the last round are still read; those of earlier rounds are not."""
    group = make_group(1, 2)
    [stays, leaver] = group.join(2)
    await group.running(1)
    for round_ in (2, 4, 6, 8):
        leaver.member.request_leave()
        await group.running(round_, stays)
        await leaver.end()
        [leaver] = group.join()
        await group.running(round_ + 1, stays, leaver)
        assert len((await group.view()).tombstones) <= 2


def fail_all(workers: ScriptedWorkers, count: int) -> None:
    """Let so many workers of one node fail at once, each with the largest message."""
    place = workers.starts[-1]
    worst = WorkerFailure(
        incarnation=place.member.incarnation,
        rank=place.base_rank,
        exit_code=1,
        message="\U0001f4a9" * 1024,
        stderr="\x01" * 4096,
    )
    workers.failures |= {
        place.failure_key(local): replace(worst, rank=place.base_rank + local) for local in range(count)
    }
    workers.phase = Workers.FAILED
    workers.on_change()


@pytest.mark.parametrize("count", [40, 150])
async def test_failures_of_all_workers_of_a_large_node_are_written_in_parts(make_group: MakeGroup, count: int) -> None:
    """Together they are more than a transaction of etcd takes: 128 operations, 1.5 MB."""
    group = make_group(2, 2)
    peers = group.join(2)
    await group.running(1)
    fail_all(peers[0].workers, count)
    state = await group.running(2)
    failures = (await group.view()).failures_of(1)
    assert state.restarts == 1
    assert len(failures) == count
    assert sorted({failure.failure.late for failure in failures}) == [False, True]
