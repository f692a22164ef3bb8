"""The store that torch's agent gets for a round: shared over etcd, and no read waits beyond the end of its round."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from elasticjob_agent.supervisor.background_loop import background
from elasticjob_agent.torchrun.rdzv_handler import AgentStore
from elasticjob_agent.torchrun.round_store import RoundEnded, RoundStore
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import Endpoint
from testing.waiting import eventually

pytestmark = pytest.mark.etcd


class Round:
    """The stores of one round, as several nodes have them."""

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.background = background()
        self.prefix = prefix
        self.over = False
        self.done = False
        self.successes = 0
        self.etcd = self.background.submit(_client(endpoint)).result()

    def store(self) -> AgentStore:
        """Return the store of one node."""
        return AgentStore(
            etcd=self.etcd,
            prefix=self.prefix,
            submit=self.background.submit,
            is_over=lambda: self.over,
            succeeded=self._succeeded,
            is_done=lambda: self.done,
        )

    def _succeeded(self) -> None:
        self.successes += 1

    def has_freed(self, store: RoundStore, event: threading.Event) -> bool:
        """Wake the waiting reads, as a handler does after each change. Return whether `event` is set."""
        self.background.loop.call_soon_threadsafe(store.wake)
        return event.is_set()


async def _client(endpoint: Endpoint) -> EtcdClient:
    return EtcdClient(endpoint)


@pytest.fixture
def round_(etcd_server: EmbeddedEtcd, prefix: str) -> Iterator[Round]:
    made = Round(etcd_server.endpoint, prefix)
    yield made
    made.background.submit(made.etcd.close()).result()


def test_all_nodes_read_the_keys_of_one(round_: Round) -> None:
    first, second = round_.store(), round_.store()
    first.set("text", "value")
    first.multi_set([f"many{n}" for n in range(150)], [bytes([n]) for n in range(150)])
    assert second.get("text") == b"value"
    assert second.multi_get(["many0", "many149"]) == [b"\x00", b"\x95"]


def test_a_get_waits_for_its_key(round_: Round) -> None:
    got: list[bytes] = []
    store = round_.store()
    waiter = threading.Thread(target=lambda: got.append(store.get("late")))
    waiter.start()
    round_.store().set("late", b"here")
    waiter.join(20)
    assert got == [b"here"]


def test_no_addition_of_any_node_is_lost(round_: Round) -> None:
    threads = [threading.Thread(target=round_.store().add, args=("sum", 2)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert round_.store().add("sum", 0) == 10


def test_a_wait_ends_at_its_time_out(round_: Round) -> None:
    store = round_.store()
    store.set_timeout(timedelta(seconds=0.1))
    with pytest.raises(TimeoutError, match=r"never was not set within 0\.1 s"):
        store.get("never")


def test_a_read_ends_when_the_round_is_over(round_: Round) -> None:
    store, caught = round_.store(), threading.Event()

    def wait() -> None:
        with pytest.raises(RoundEnded):
            store.get("never")
        caught.set()

    threading.Thread(target=wait, daemon=True).start()
    round_.over = True
    eventually(lambda: round_.has_freed(store, caught), within_s=20, what="the end of the read")


def test_the_exit_barrier_is_the_end_of_the_job(round_: Round) -> None:
    store, passed = round_.store(), threading.Event()

    def barrier() -> None:
        assert store.add("torchelastic/agent/terminal_state/num_members", 1) == 0
        store.wait(["torchelastic/agent/terminal_state/last_member"])
        passed.set()

    threading.Thread(target=barrier, daemon=True).start()
    eventually(lambda: round_.successes == 1, within_s=20, what="the report of success")
    assert not passed.is_set()
    round_.done = True
    eventually(lambda: round_.has_freed(store, passed), within_s=20, what="the barrier passed")
