"""Ranks of workers: contiguous per agent over all agents, and per role over those of the same role."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from elasticjob_agent.rendezvous.store import InMemoryStore
from elasticjob_agent.server import Worker
from elasticjob_agent.server.ranks import _RoleInstanceInfo, sorted_by_role
from tests.unit.server.agents import ScriptedAgent, spec


def assigned(agents: Sequence[tuple[str, int]]) -> list[list[Worker]]:
    """Return the workers that agents of these (role, size), by group rank, assign to themselves."""
    store = InMemoryStore()

    def assign(group_rank: int) -> list[Worker]:
        role, size = agents[group_rank]
        own = spec(role=role, local_world_size=size)
        return ScriptedAgent(own)._assign_worker_ranks(store, group_rank, len(agents), own)

    with ThreadPoolExecutor(len(agents)) as pool:
        return list(pool.map(assign, range(len(agents))))


def ranks_of(workers: Sequence[Sequence[Worker]]) -> list[tuple[list[int], list[int]]]:
    return [([w.global_rank for w in node], [w.role_rank for w in node]) for node in workers]


def test_b_004_05_role_infos_are_ordered_by_role_then_rank() -> None:
    a1, a4, b0 = (_RoleInstanceInfo(role, rank, 1) for role, rank in (("a", 1), ("a", 4), ("b", 0)))
    assert [info.rank for info in sorted_by_role([b0, a4, a1])] == [1, 4, 0]
    assert (_RoleInstanceInfo.compare(a4, a1), _RoleInstanceInfo.compare(a1, a1)) == (3, 0)
    assert _RoleInstanceInfo.compare(b0, a4) > 0 > _RoleInstanceInfo.compare(a4, b0)


def test_b_004_05_role_info_survives_the_way_through_a_store() -> None:
    info = _RoleInstanceInfo("tränier", 3, 8)
    assert isinstance(info.serialize(), bytes)
    assert _RoleInstanceInfo.deserialize(info.serialize()) == info


@pytest.mark.parametrize(("role", "found"), [("a", (0, 1)), ("b", (2, 2)), ("c", (3, 5)), ("d", (-1, -1))])
def test_b_004_05_boundaries_of_a_role_are_inclusive(role: str, found: tuple[int, int]) -> None:
    infos = [_RoleInstanceInfo(r, rank, 1) for rank, r in enumerate("aabccc")]
    assert _RoleInstanceInfo.find_role_boundaries(infos, role) == found


def test_b_004_06_five_agents_of_two_roles_have_contiguous_ranks() -> None:
    workers = assigned([("ps", 4), ("trainer", 1), ("trainer", 2), ("trainer", 3), ("ps", 5)])
    assert ranks_of(workers) == [
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        ([4], [0]),
        ([5, 6], [1, 2]),
        ([7, 8, 9], [3, 4, 5]),
        ([10, 11, 12, 13, 14], [4, 5, 6, 7, 8]),
    ]
    assert {w.world_size for node in workers for w in node} == {15}
    assert [node[0].role_world_size for node in workers] == [9, 6, 6, 6, 9]


def test_b_004_06_the_worked_example_of_four_agents() -> None:
    workers = assigned([("trainer", 2), ("ps", 1), ("trainer", 3), ("ps", 2)])
    assert ranks_of(workers) == [([0, 1], [0, 1]), ([2], [0]), ([3, 4, 5], [2, 3, 4]), ([6, 7], [1, 2])]
    assert [(node[0].world_size, node[0].role_world_size) for node in workers] == [(8, 5), (8, 3), (8, 5), (8, 3)]


def test_b_004_07_identical_nodes_need_no_exchange_and_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    general = ranks_of(assigned([("r", 2)] * 3))
    monkeypatch.setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1")
    own = spec(role="r")
    fast = [ScriptedAgent(own)._assign_worker_ranks(None, rank, 3, own) for rank in range(3)]
    assert ranks_of(fast) == general == [([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4, 5], [4, 5])]


def test_b_004_07_one_agent_alone() -> None:
    assert ranks_of(assigned([("r", 3)])) == [([0, 1, 2], [0, 1, 2])]


def test_b_004_07_a_thousand_agents_compute_their_ranks_in_memory() -> None:
    infos = [_RoleInstanceInfo("ab"[rank % 2], rank, 8) for rank in range(1000)]

    class WithSizes(ScriptedAgent):
        def _share_and_gather(self, *_: object) -> list[_RoleInstanceInfo]:
            return list(infos)

    agents = [(rank, WithSizes(spec(role="ab"[rank % 2], local_world_size=8))) for rank in range(1000)]
    begin_s = time.process_time()
    workers = [agent._assign_worker_ranks(None, rank, 1000, agent.get_worker_group().spec) for rank, agent in agents]
    assert time.process_time() - begin_s < 10  # a second on a machine of its own
    of_roles = [list(range(8 * (rank // 2), 8 * (rank // 2) + 8)) for rank in range(1000)]
    assert ranks_of(workers) == [(list(range(8 * rank, 8 * rank + 8)), of_roles[rank]) for rank in range(1000)]
    assert {(w.world_size, w.role_world_size) for node in workers for w in node} == {(8000, 4000)}
