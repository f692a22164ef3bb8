"""Agents of a plain rendezvous: ranks and master through its store, the exit barrier, time limits."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from elasticjob_agent.rendezvous.interface import RendezvousInfo, RendezvousStoreInfo
from elasticjob_agent.rendezvous.store import InMemoryStore
from elasticjob_agent.server import WorkerGroup, WorkerState, api
from tests.unit.server.agents import SUCCEEDED, Rounds, ScriptedAgent, spec


class Node(Rounds):
    """One of several nodes that share a store."""

    def __init__(self, store: InMemoryStore, rank: int, size: int, info: RendezvousStoreInfo | None = None) -> None:
        super().__init__()
        self.answer: Any = (store, rank, size) if info is None else RendezvousInfo(store, rank, size, info)

    def next_rendezvous(self) -> Any:
        return self.answer


def meet(size: int = 2, info: RendezvousStoreInfo | None = None, **fields: Any) -> list[ScriptedAgent]:
    """Return agents after their rendezvous; of a field with a list, each agent takes the entry of its rank."""
    store = InMemoryStore()
    own = [
        {name: value[rank] if isinstance(value, list) else value for name, value in fields.items()}
        for rank in range(size)
    ]
    agents = [ScriptedAgent(spec(Node(store, rank, size, info), **own[rank])) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        list(pool.map(lambda agent: agent._rendezvous(agent.get_worker_group()), agents))
    return agents


class TorchsInfo:
    """The result of torch's handlers: it has these fields, and cannot be unpacked."""

    def __init__(self, store: InMemoryStore, rank: int, size: int, bootstrap: RendezvousStoreInfo) -> None:
        self.store, self.rank, self.world_size = store, rank, size
        self.bootstrap_store_info = bootstrap


def masters(agents: list[ScriptedAgent]) -> set[tuple[str | None, int | None]]:
    groups = [agent.get_worker_group() for agent in agents]
    return {(group.master_addr, group.master_port) for group in groups}


def test_b_004_08_triple_and_info_give_the_same_ranks() -> None:
    both = [meet(), meet(info=RendezvousStoreInfo("m", 1))]
    ranks = [[str(w) for a in agents for w in a.get_worker_group().workers] for agents in both]
    assert ranks[0] == ranks[1]
    assert [a.get_worker_group().group_rank for a in both[0]] == [0, 1]


def test_the_result_of_a_torch_handler_is_accepted() -> None:
    store = InMemoryStore()
    nodes = [Node(store, rank, 2) for rank in range(2)]
    for rank, node in enumerate(nodes):
        node.answer = TorchsInfo(store, rank, 2, RendezvousStoreInfo("torchs", 29400))
    agents = [ScriptedAgent(spec(node)) for node in nodes]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda agent: agent._rendezvous(agent.get_worker_group()), agents))
    assert masters(agents) == {("torchs", 29400)}
    assert [agent.get_worker_group().group_rank for agent in agents] == [0, 1]


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        pytest.param({"master_addr": "spec", "local_addr": "local"}, "spec", id="of the spec"),
        pytest.param({"local_addr": ["first", "second"]}, "first", id="local address of rank 0"),
        pytest.param({}, "own-host", id="host name"),
    ],
)
def test_b_004_08_all_agents_agree_on_the_master_of_a_triple(
    fields: dict[str, Any], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_get_fq_hostname", lambda: "own-host")
    ((found, port),) = masters(meet(**fields))
    assert found == address
    assert port is not None
    assert 0 < port < 65536


def test_b_004_08_a_fixed_port_of_the_spec_is_used_by_all() -> None:
    assert masters(meet(master_addr="a", master_port=29511)) == {("a", 29511)}


def test_b_004_08_the_master_of_the_spec_overrides_that_of_the_rendezvous() -> None:
    info = RendezvousStoreInfo("rdzv", 1)
    assert masters(meet(info=info)) == {("rdzv", 1)}
    assert masters(meet(info=info, master_addr="spec", master_port=2)) == {("spec", 2)}


def test_k_004_07_chosen_port_is_held_until_the_workers_start_and_a_pod_offers_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELASTICJOB_POD_IP", "10.1.2.3")
    agent, free = ScriptedAgent(spec(Rounds(as_triple=True))), []
    original = agent._rendezvous

    def and_then_check(worker_group: WorkerGroup) -> None:
        original(worker_group)
        free.append(is_free(worker_group.master_port))

    agent._rendezvous = and_then_check  # type: ignore[method-assign]
    agent.on_step = lambda step: free.append(is_free(agent.get_worker_group().master_port)) if step == "start" else None
    agent.run()
    assert free == [False, True]
    assert agent.get_worker_group().master_addr == "10.1.2.3"


def is_free(port: int | None) -> bool:
    """Return whether another process could bind it now."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port or 0))
        except OSError:
            return False
        return True


def test_static_master_helpers_write_and_read_the_documents_keys() -> None:
    store = InMemoryStore()
    ScriptedAgent._set_master_addr_port(store, "a", 5)
    assert (store.get("MASTER_ADDR"), store.get("MASTER_PORT")) == (b"a", b"5")
    assert ScriptedAgent._get_master_addr_port(store) == ("a", 5)


def test_b_004_37_first_of_two_agents_waits_for_the_second_at_the_exit() -> None:
    store, second_may_end = InMemoryStore(), threading.Event()
    info = RendezvousStoreInfo("m", 1)
    agents = [ScriptedAgent(spec(Node(store, rank, 2, info)), [SUCCEEDED]) for rank in range(2)]
    agents[1].on_step = lambda step: None if step != "check" else _wait(second_may_end)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(agent.run) for agent in agents]
        assert store.get("torchelastic/agent/terminal_state/num_members") == b"1"
        assert not runs[0].done()
        second_may_end.set()
        assert [run.result(30).state for run in runs] == [SUCCEEDED] * 2


def _wait(event: threading.Event) -> None:
    event.wait(30)


def test_b_004_37_time_out_and_errors_of_the_barrier_change_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1")  # the second node never joins
    own = spec(Node(InMemoryStore(), 0, 2, RendezvousStoreInfo("m", 1)))
    result = ScriptedAgent(own, [SUCCEEDED], exit_barrier_timeout=0).run()
    assert (result.state, len(result.return_values)) == (SUCCEEDED, 2)
    assert "the exit barrier failed; the result of this node is unchanged" in caplog.text


def test_b_004_38_and_k_004_04_failed_run_waits_at_no_barrier() -> None:
    class Barrier(ScriptedAgent):
        def _exit_barrier(self) -> None:
            self._note("barrier")

    agent = Barrier(spec(max_restarts=0), [WorkerState.FAILED])
    assert agent.run().is_failed()
    assert "barrier" not in agent.did


@pytest.mark.parametrize("which", ["exit_barrier_timeout", "shutdown_timeout"])
def test_b_004_37_and_b_004_43_time_limits_are_explicit_or_of_the_environment_or_defaults(
    which: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def limit(**given: Any) -> object:
        return getattr(ScriptedAgent(spec(), **given), f"_{which}")

    variable = f"TORCH_ELASTIC_{which.upper()}"
    assert limit() == {"exit_barrier_timeout": 300, "shutdown_timeout": 30}[which]
    monkeypatch.setenv(variable, "12")
    assert (limit(), limit(**{which: 5}), limit(**{which: 0})) == (12, 5, 0)
    with pytest.raises(ValueError, match=f"{which} is -1 s"):
        limit(**{which: -1})
    monkeypatch.setenv(variable, "soon")
    assert limit() in {300, 30}
    assert f"{variable} is 'soon', which is not a number" in caplog.text


def test_b_004_43_shutdown_time_out_reaches_the_shutdown_unchanged() -> None:
    agent = ScriptedAgent(spec(), [SUCCEEDED], shutdown_timeout=11)
    agent.run()
    assert agent.shutdowns == [(15, 11)]
