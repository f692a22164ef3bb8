"""Real agents whose workers train and publish their parts of each step."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from elasticjob_api import constants, records
from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_api.records import KeepReport, NodeSamples
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase, decode_leader, decode_state
from elasticjob_api.rendezvous_view import NodeEntry, parse_view
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint, KeyValue
from testing.processes.fleet import Fleet
from testing.waiting import eventually, scaled

_TRAINING = Path(__file__).with_name("training.py")
_WITHIN_S = 40.0


async def _read(endpoint: str, prefix: str) -> tuple[KeyValue, ...]:
    client = EtcdClient(Endpoint((endpoint,)))
    try:
        return (await client.range(prefix)).kvs
    finally:
        await client.close()


def _holds_only(folder: Path, step: int) -> bool:
    return {int(path.name) for path in folder.glob("*/[0-9]*")} == {step}


@dataclass
class TrainingFleet(Fleet):
    """Agents of one job that keep steps below `keep_dir`; None: they keep none."""

    keep_dir: Path | None = None
    copies: int = 1
    persist_to: Path | None = None
    persist_every_s: float = 10.0
    may_resume: bool = True
    restore_timeout_s: float = 30.0
    has_volume: bool = True
    """Whether the agents can use that directory."""
    size_limit: str = "16Mi"
    padding: int = 0
    """More bytes of each part."""
    conf: str = "keep_alive=2,last_call_timeout=1"
    volumes: list[Path] = field(default_factory=list)
    """The directory of each agent."""

    def begin(self, count: int) -> None:
        """Start so many agents, and wait until all their workers run in round 1."""
        for _ in range(count):
            self.run_training()
        self.await_round(1, count * self.nproc)

    def run_training(self) -> int:
        """Start one agent; return its number when its keeper has a volume."""
        if self.keep_dir is not None:
            self.environment = {
                **self.environment,
                constants.ENV_KEEP_DIR: str(self.keep_dir),
                constants.ENV_KEEP_COPIES: str(self.copies),
                constants.ENV_KEEP_SIZE_LIMIT: self.size_limit,
                "TRAINING_PADDING": str(self.padding),
                constants.ENV_KEEP_RESTORE_TIMEOUT: f"{scaled(self.restore_timeout_s):g}",
            }
        if self.persist_to is not None:
            self.environment = {
                **self.environment,
                constants.ENV_KEEP_PERSIST_TO: str(self.persist_to),
                constants.ENV_KEEP_PERSIST_EVERY: f"{self.persist_every_s:g}",
                constants.ENV_KEEP_RESUME: "1" if self.may_resume else "0",
            }
        agent = self.start_agent(sys.executable, "-S", str(_TRAINING), str(self.trace), str(self.orders))
        if self.keep_dir is not None and self.has_volume:
            number = len(self.agents) - 1
            eventually(lambda: self._open_dirs(agent.pid), within_s=_WITHIN_S, what=f"a volume of agent {number}")
            self.volumes.append(self._open_dirs(agent.pid)[0])
        return len(self.agents) - 1

    def _open_dirs(self, pid: int) -> list[Path]:
        """Return the directories below `keep_dir` that an agent has locked."""
        found = []
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                path = link.readlink()
                if path.parent == self.keep_dir and (path / "volume" / "volume.json").exists():
                    found.append(path)
        return found

    def await_world(self, size: int) -> int:
        """Wait until the workers of the newest round are so many; return that round."""

        def has_size() -> bool:
            places = [point["world"] for point in self.running(max(self.rounds(), default=0))]
            return places == [size] * size

        eventually(has_size, within_s=_WITHIN_S, what=f"a round of {size} workers")
        return int(max(self.rounds()))

    def train_to(self, step: int, round_: int, workers: int) -> None:
        """Let all workers train up to this step, and wait until so many have published it in this round."""
        draft = self.orders / "draft"
        draft.write_text(str(step))
        draft.rename(self.orders / "target")
        what = f"{workers} workers publish step {step} in round {round_}"
        eventually(lambda: len(self.published(step, round_)) >= workers, within_s=_WITHIN_S, what=what)

    def published(self, step: int, round_: int) -> set[int]:
        """Return the ranks that have published a step in a round."""
        points = [p for p in self.points() if p["point"] == "published" and p["round"] == round_]
        return {int(point["rank"]) for point in points if point["step"] == step}

    def restored(self, round_: int) -> set[int | None]:
        """Return the steps that the workers of a round have restored."""
        return {point["restored"] for point in self.running(round_)}

    def await_held(self, agent: int, step: int, parts: int) -> None:
        """Wait until the volume of an agent has so many parts of a step."""
        folder = self.volumes[agent] / "volume" / "held"
        what = f"agent {agent} holds {parts} parts of step {step}"
        eventually(lambda: len([*folder.glob(f"*/{step}/*.json")]) >= parts, within_s=_WITHIN_S, what=what)

    def whole_steps(self) -> list[int]:
        """Return the numbers of the persisted steps, whichever job wrote them."""
        found = [] if self.persist_to is None else self.persist_to.glob("*/step-*")
        return sorted(int(path.name.split(".")[0].removeprefix("step-")) for path in found)

    def await_persisted(self, least: int) -> int:
        """Wait until a step from this number on is whole on disk; return the newest."""
        what = f"a step from {least} is whole in {self.persist_to}"
        eventually(lambda: max(self.whole_steps(), default=0) >= least, within_s=60.0, what=what)
        return max(self.whole_steps())

    def await_committed(self, step: int, *agents: int) -> None:
        """Wait until these agents hold this step and no older one: only a commit drops those."""
        for agent in agents:
            folder = self.volumes[agent] / "volume" / "held"
            what = f"step {step} is the only one at agent {agent}"
            eventually(partial(_holds_only, folder, step), within_s=_WITHIN_S, what=what)

    def held(self, agent: int) -> set[str]:
        """Return the parts that are in the volume of an agent, as `<lineage>/<number>/<part>`."""
        folder = self.volumes[agent] / "volume" / "held"
        # A step may be dropped meanwhile: os.walk passes over a directory that is gone, Path.glob raises.
        found = (Path(above, name) for above, names, _ in os.walk(folder) for name in names if "-of-" in name)
        return {str(path.relative_to(folder)) for path in found}

    def leader(self) -> int:
        """Return the number of the agent that leads."""
        key = Keys(cli_prefix(self.run_id)).leader
        found = eventually(lambda: asyncio.run(_read(self.endpoint, key)), within_s=_WITHIN_S, what="a leader")
        slot = decode_leader(found[0].value).member.slot
        (number,) = [self._number_of(node) for node in self._nodes() if node.member.slot == slot]
        return number

    def await_ready(self, agent: int) -> None:
        """Wait until a round forms, and an agent has reported for it that its workers have stopped."""

        def is_ready() -> bool:
            state = self.state()
            rounds = [node.record.ready for node in self._nodes() if self._number_of(node) == agent]
            return state.phase is RoundPhase.FORMING and rounds == [state.round]

        eventually(is_ready, within_s=_WITHIN_S, what=f"agent {agent} is ready for the round that forms")

    def _nodes(self) -> list[NodeEntry]:
        keys = Keys(cli_prefix(self.run_id))
        return [*parse_view(keys, asyncio.run(_read(self.endpoint, keys.nodes))).nodes.values()]

    def _number_of(self, node: NodeEntry) -> int:
        """Return the number of the agent with this record, whose pod is named after its process."""
        return [agent.pid for agent in self.agents].index(int(node.record.pod.rpartition("-")[2]))

    def state(self) -> RendezvousState:
        """Return the state of the rendezvous."""
        (found,) = asyncio.run(_read(self.endpoint, Keys(cli_prefix(self.run_id)).rendezvous_state))
        return decode_state(found.value)

    def reports(self) -> list[KeepReport | None]:
        """Return what each node has reported about its kept steps."""
        keys = Keys(cli_prefix(self.run_id))
        found = asyncio.run(_read(self.endpoint, keys.reports))
        samples = [kv.value for kv in found if (at := keys.parse(kv.key)) and at.kind == "samples"]
        return [records.decode(NodeSamples, value).keep for value in samples]

    def kill_worker(self, round_: int, rank: int) -> None:
        """Kill one worker."""
        (pid,) = {int(p["pid"]) for p in self.running(round_) if p["rank"] == rank}
        psutil.Process(pid).kill()

    def keeper(self, agent: int) -> psutil.Process:
        """Return the keeper of an agent, when it runs."""
        return _child(psutil.Process(self.agents[agent].pid), "elasticjob_agent.keep.keeper")

    def writer(self, agent: int) -> psutil.Process:
        """Return the process that writes the steps of an agent to disk, when it runs."""
        return _child(self.keeper(agent), "elasticjob_agent.keep.persist")

    def kill_agent(self, agent: int, *, with_memory: bool) -> None:
        """Kill an agent; `with_memory` is whether its node is lost with it."""
        keeper = self.keeper(agent)
        self.agents[agent].kill()
        self.agents[agent].wait()
        keeper.wait(scaled(10))
        if with_memory:
            shutil.rmtree(self.volumes[agent])

    def leave(self, agent: int) -> None:
        """Let a node leave in order."""
        self.agents[agent].send_signal(signal.SIGTERM)

    def finish_all(self) -> list[int]:
        """Let the workers end; return how the agents have ended."""
        self.finish()
        return self.await_ends(40)

    def kill_all(self) -> None:
        """Kill the agents that still run; their keepers and workers end with them."""
        for agent in self.agents:
            agent.kill()
            agent.wait()


def _child(above: psutil.Process, module: str) -> psutil.Process:
    """Return the one child of a process that runs this module, when it runs."""

    def find() -> list[psutil.Process]:
        return [child for child in above.children() if module in child.cmdline()]

    (found,) = eventually(find, what=f"a child of process {above.pid} runs {module}")
    return found
