"""A fleet whose workers follow orders by round and rank, and a reader of its job's records in etcd.

Orders belong to a round: one that is late for it is never carried out in the next.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elasticjob_agent.rendezvous.protocol.membership import LAST_CALL_TIMEOUT_S
from elasticjob_api import constants, keys, records
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord, WorkerFailure
from elasticjob_api.rendezvous_state import Leader, RendezvousState, RoundPhase, decode_leader
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint, Put, Txn
from testing.processes.fleet import Fleet
from testing.waiting import eventually, scaled

_WORKER = Path(__file__).with_name("scripted_worker.py")
_TIMEOUT_S = 30.0


@dataclass
class ScriptedFleet(Fleet):
    """Some agents of one job. Readers of etcd use `endpoint`, whatever the path of the agents."""

    options: tuple[str, ...] = ("--progress",)
    """Options of the workers, see scripted_worker.py. With progress, a failure is not one at start-up."""
    keep_alive_s: float = 2.0
    is_warm: bool = False
    """Whether agents may start workers warm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.conf = f"keep_alive={self.keep_alive_s:g}"
        if self.is_warm:
            self.environment = {**self.environment, constants.ENV_WARM_START: "Auto"}

    def run_scripted(self, *, way: str | None = None, options: tuple[str, ...] | None = None) -> int:
        """Start one agent with such workers; return its number. `way` is an endpoint of its own."""
        direct, self.endpoint = self.endpoint, way or self.endpoint
        try:
            self.start_agent(*self._command(self.options if options is None else options))
        finally:
            self.endpoint = direct
        return len(self.agents) - 1

    def run_scripted_on(self, host: str, slot: int, *, way: str | None = None) -> int:
        """As `run_scripted`, on a host of that name, as if in a pod; `set_replicas` must have been called before."""
        number = len(self.agents)
        environment = {
            **os.environ,
            constants.ENV_PREFIX: self.keys.prefix,
            constants.ENV_ENDPOINTS: way or self.endpoint,
            constants.ENV_SLOT: str(slot),
            constants.ENV_JOB: self.run_id,
            constants.ENV_POD_NAME: f"pod-{number}",
            constants.ENV_POD_UID: f"uid-{number}",
            constants.ENV_POD_IP: "127.0.0.1",
            constants.ENV_NODE_NAME: host,
            constants.ENV_NPROC: str(self.nproc),
            constants.ENV_TRACE: str(self.trace),
            "FLEET_AGENT": str(number),
        }
        line = [sys.executable, "-m", "elasticjob_agent.cli.main", "--pod", "--", *self._command(self.options)]
        with self.log_of(number).open("wb") as log:
            self.agents.append(subprocess.Popen(line, env=environment, stdout=log, stderr=log, start_new_session=True))
        return number

    def _command(self, options: tuple[str, ...]) -> tuple[str, ...]:
        site = () if self.is_warm else ("-S",)
        return (sys.executable, *site, str(_WORKER), str(self.trace), str(self.orders), *options)

    def await_forked_ahead(self, round_: int) -> None:
        """Wait until a worker waits for each rank of the round after this one."""
        workers = len(self.running(round_))
        wanted = 2 * workers + len(self.agents)  # those that run, those that wait, and the zygotes
        eventually(
            lambda: self._processes_of_workers() >= wanted, within_s=60.0, what="workers that wait", pause_s=0.05
        )

    def await_profile(self) -> None:
        """Wait until an agent has written what its workers import."""
        eventually(
            lambda: asyncio.run(_read_keys(self.endpoint, self.keys.import_profile)),
            within_s=_TIMEOUT_S,
            what="an import profile",
            pause_s=0.05,
        )

    def _processes_of_workers(self) -> int:
        """Return how many processes have the command of the workers."""
        line = "\0".join(self._command(self.options)).encode()
        count = 0
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                count += path.read_bytes().startswith(line)
        return count

    def reported(self, agent: int, words: str) -> bool:
        """Return whether an agent has printed this."""
        return words in self.log_of(agent).read_text()

    def await_reported(self, agent: int, words: str) -> None:
        """Wait until an agent has printed this."""
        eventually(lambda: self.reported(agent, words), within_s=_TIMEOUT_S, what=f"agent {agent} prints {words!r}")

    def pids(self, round_: int) -> set[int]:
        """Return the pids of the workers of a round."""
        return {int(p["pid"]) for p in self.running(round_)}

    def await_silence(self, of: set[int]) -> None:
        """Wait until none of these processes exists."""
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in of), within_s=_TIMEOUT_S, what="their end")

    def begin(self, count: int) -> None:
        """Start so many agents, and wait until all their workers run in round 1."""
        least, _, most = self.nnodes.partition(":")
        if count == int(
            most or least
        ):  # a busy machine starts the last one late, and no round waits beyond all of them
            self.conf += f",last_call_timeout={_TIMEOUT_S:g}"
        for _ in range(count):
            self.run_scripted()
        self.await_round(1, count * self.nproc)

    def give_orders(self, round_: int, orders: dict[str, dict[str, Any]]) -> None:
        """Order workers of a round to do something: rank, or `*`, → order."""
        draft = self.orders / f".{round_}"
        draft.write_text(json.dumps(orders))
        draft.rename(self.orders / f"{round_}.json")

    def start_rounds(self) -> None:
        """Let workers that save finish their save."""
        (self.orders / "go").touch()

    def workers(self, point: str, round_: int) -> list[int]:
        """Return the ranks that have reached this point in a round, in order of time."""
        return [int(p["rank"]) for p in self.points() if p["point"] == point and p["round"] == round_ and "rank" in p]

    def await_point(self, point: str, round_: int, workers: int) -> None:
        """Wait until so many workers have reached this point."""
        what = f"{workers} workers {point!r} in round {round_}"
        eventually(lambda: len(self.workers(point, round_)) >= workers, within_s=_TIMEOUT_S, what=what)

    def restarts(self, round_: int) -> set[str]:
        """Return the restart counts that the workers of a round got."""
        return {p["env"]["TORCHELASTIC_RESTART_COUNT"] for p in self.running(round_)}

    def all_finish(self, *agents: int) -> None:
        """End the job with success: these agents (all) exit 0."""
        self.finish()
        wanted = agents or tuple(range(len(self.agents)))
        codes = {agent: self.agents[agent].wait(timeout=scaled(_TIMEOUT_S)) for agent in wanted}
        assert set(codes.values()) == {0}, self.log_of(next(a for a in wanted if codes[a])).read_text()

    # -- etcd ------------------------------------------------------------------------------------

    @property
    def keys(self) -> Keys:
        """Return the keys of this job."""
        return Keys(keys.cli_prefix(self.run_id))

    def view(self) -> RendezvousView:
        """Return all records of the job in etcd."""
        return asyncio.run(_view(self.endpoint, self.keys))

    def state(self) -> RendezvousState | None:
        """Return the current state."""
        return self.view().state

    def await_state(self, phase: RoundPhase, round_: int) -> RendezvousState:
        """Wait for the state of this phase and round, and return it."""

        def seen() -> RendezvousState | None:
            state = self.state()
            return state if state is not None and (state.phase, state.round) == (phase, round_) else None

        found = eventually(seen, within_s=_TIMEOUT_S, what=f"{phase.value} {round_}", pause_s=0.05)
        assert found is not None
        return found

    def root_cause(self, round_: int) -> WorkerFailure:
        """Return the verdict's cause of that round's end; valid until the next round ends."""
        view = self.view()
        assert view.state is not None
        root = view.state.root_failure
        assert root is not None, "nothing is named as the cause"
        assert root.round == round_, f"{root} is named as the cause of round {round_}'s end"
        return view.failures[root].failure

    def slot_of_leader(self) -> int:
        """Return the slot of the leader."""
        leader = eventually(lambda: _leader(self.endpoint, self.keys), within_s=_TIMEOUT_S, what="a leader")
        assert leader is not None
        return leader.member.slot

    def agent_of(self, slot: int) -> int:
        """Return the agent that occupies a slot."""
        pod = next(node.record.pod for member, node in self.view().nodes.items() if member.slot == slot)
        if pod.startswith("pod-"):
            return int(pod.removeprefix("pod-"))
        pids = {agent.pid: number for number, agent in enumerate(self.agents)}
        return pids[int(pod.rpartition("-")[2])]

    def set_replicas(self, **changes: Any) -> None:
        """Write the wanted state to `P/c/spec`: before the first agent all fields, later only changes."""
        now = self.view().spec
        least, _, most = self.nnodes.partition(":")
        plain = SpecRecord(
            min=int(least),
            max=int(most or least),
            desired=int(most or least),
            max_restarts=self.max_restarts,
            last_call_timeout_s=LAST_CALL_TIMEOUT_S,
            scale_up_delay_s=1.0,
            keep_alive_s=self.keep_alive_s,
        )
        self.put(self.keys.spec, records.encode(replace(now or plain, **changes)))

    def put(self, key: str, value: bytes) -> None:
        """Any key."""
        asyncio.run(_put(self.endpoint, key, value))


async def _view(endpoint: str, of: Keys) -> RendezvousView:
    client = EtcdClient(Endpoint(tuple(endpoint.split(","))))
    try:
        return parse_view(of, (await client.range(of.everything)).kvs)
    finally:
        await client.close()


async def _read_keys(endpoint: str, prefix: str) -> list[str]:
    client = EtcdClient(Endpoint(tuple(endpoint.split(","))))
    try:
        return [kv.key for kv in (await client.range(prefix)).kvs]
    finally:
        await client.close()


async def _put(endpoint: str, key: str, value: bytes) -> None:
    client = EtcdClient(Endpoint(tuple(endpoint.split(","))))
    try:
        await client.txn(Txn((), (Put(key, value),)))
    finally:
        await client.close()


def _leader(endpoint: str, of: Keys) -> Leader | None:
    async def ask() -> Leader | None:
        client = EtcdClient(Endpoint(tuple(endpoint.split(","))))
        try:
            found = await client.get(of.leader)
            return None if found is None else decode_leader(found.value)
        finally:
            await client.close()

    return asyncio.run(ask())


@contextlib.contextmanager
def scripted_fleet(
    endpoint: str,
    folder: Path,
    nnodes: str,
    nproc: int,
    *,
    max_restarts: int = 100,
    keep_alive_s: float = 2.0,
    options: tuple[str, ...] = ("--progress",),
    is_warm: bool = False,
) -> Iterator[ScriptedFleet]:
    """A fleet whose agents are stopped at the end."""
    made = ScriptedFleet(
        endpoint,
        folder,
        nnodes,
        nproc,
        max_restarts=max_restarts,
        options=options,
        keep_alive_s=keep_alive_s,
        is_warm=is_warm,
    )
    try:
        yield made
    finally:
        made.finish()
        made.start_rounds()
        made.stop()
