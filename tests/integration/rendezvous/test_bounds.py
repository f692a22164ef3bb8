"""However long a job lives and however it fails, what its agents keep in etcd stays small, and each write fits."""

from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.transactions import FailureRecord
from elasticjob_api.records import WorkerFailure
from tests.integration.rendezvous.conftest import Recruit
from tests.integration.rendezvous.member_group import ScriptedWorkers


async def test_of_nodes_that_left_long_ago_nothing_is_kept(recruit: Recruit) -> None:
    """The proof of who left in the last round is still read; that of earlier ones is not."""
    crew = recruit(1, 2)
    [stays, leaver] = crew.join(2)
    await crew.running(1)
    for round_ in (2, 4, 6, 8):
        leaver.member.request_leave()
        await crew.running(round_, stays)
        await leaver.end()
        [leaver] = crew.join()
        await crew.running(round_ + 1, stays, leaver)
        assert len((await crew.view()).tombstones) <= 2


def fail_all(workers: ScriptedWorkers, count: int) -> None:
    """So many workers of one node end at once, with as much to say as there may be."""
    place = workers.starts[-1]
    worst = WorkerFailure(
        incarnation="", rank=place.base_rank, exit_code=1, message="\U0001f4a9" * 1024, stderr="\x01" * 4096
    )
    told = [FailureRecord(place.round, local, replace(worst, rank=place.base_rank + local)) for local in range(count)]
    workers.failures += told
    workers.phase = Workers.FAILED
    workers.on_change()


@pytest.mark.parametrize("count", [40, 150])
async def test_failures_of_all_workers_of_a_large_node_are_told_piece_by_piece(recruit: Recruit, count: int) -> None:
    """At once they are more than a transaction of etcd holds: 128 operations, 1.5 MB."""
    crew = recruit(2, 2)
    mates = crew.join(2)
    await crew.running(1)
    fail_all(mates[0].workers, count)
    world = await crew.running(2)
    failures = (await crew.view()).failures_of(1)
    assert world.restarts == 1
    assert len(failures) == count
    assert sorted({failure.failure.late for failure in failures}) == [False, True]
