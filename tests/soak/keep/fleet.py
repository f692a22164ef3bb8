"""The nodes of one soaked job: an agent with its keeper on each machine, which faults take away and give back."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from elasticjob_api import constants
from testing.waiting import scaled
from tests.soak.keep.network import Machine
from tests.soak.keep.shared_directory import SharedDirectory

_TRAINING = Path(__file__).with_name("training.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one job trains and keeps steps."""

    nodes: int
    """At the start; a job has 4 at most."""
    nproc: int
    copies: int
    form: str
    """`parts` or `copies`, as in training.py."""
    lag_s: float
    step_s: float
    part_bytes: int
    least: int = 2
    """The fewest nodes of a round."""
    persist_every_s: float = 0.0
    """How often a step is written to a shared directory; 0: there is none."""


@dataclass
class Node:
    """One machine of a job, with or without an agent."""

    machine: Machine
    folder: Path
    """Its memory: the directory below which it keeps steps."""
    log: Path
    agent: "subprocess.Popen[bytes] | None" = None
    may_end: bool = False
    """Whether its agent was ordered to leave."""

    @property
    def is_up(self) -> bool:
        """Whether its agent runs."""
        return self.agent is not None and self.agent.poll() is None

    @property
    def name(self) -> str:
        """The name of the machine."""
        return self.machine.name

    def keeper(self) -> psutil.Process | None:
        """Return the keeper of its agent; None if there is none at present."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._pid).children():
                if "elasticjob_agent.keep.keeper" in child.cmdline():
                    return child
        return None

    def writer(self) -> psutil.Process | None:
        """Return the process that writes to the shared directory; None if there is none at present."""
        with contextlib.suppress(psutil.Error):
            keeper = self.keeper()
            for child in keeper.children() if keeper is not None else ():
                if "elasticjob_agent.keep.persist" in child.cmdline():
                    return child
        return None

    def workers(self) -> list[psutil.Process]:
        """Return the workers of its agent."""
        found = []
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if str(_TRAINING) in child.cmdline():
                        found.append(child)
        return found

    def kill(self, *, with_memory: bool) -> None:
        """Kill its agent, and with it keeper and workers; `with_memory`: the machine is lost with all that it has."""
        kill_together([self], with_memory=with_memory)

    def send(self, number: signal.Signals) -> None:
        """Send its agent a signal."""
        assert self.agent is not None
        self.agent.send_signal(number)

    @property
    def _pid(self) -> int:
        return self.agent.pid if self.agent is not None else 0


def kill_together(nodes: list[Node], *, with_memory: bool) -> None:
    """Kill these nodes at the same moment, as `Node.kill` does."""
    agents = [node.agent for node in nodes if node.agent is not None]
    found = [each for node in nodes for each in (node.keeper(), node.writer(), *node.workers())]
    for agent in agents:
        agent.kill()
    for agent in agents:
        agent.wait()
    psutil.wait_procs([each for each in found if each is not None], timeout=scaled(20))
    for node in nodes:
        node.agent = None
        if with_memory:
            shutil.rmtree(node.folder)


@dataclass
class Fleet:
    """All nodes of one job; `journal` is the file of its events."""

    endpoint: str
    folder: Path
    settings: Settings
    machines: list[Machine]
    memory: Path
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.journal = self.folder / "journal"
        self.journal.touch()
        self.orders = self.folder / "finish"
        self.nodes = [
            Node(machine, self.memory / f"{self.run_id}-{machine.name}", self.folder / f"{machine.name}.log")
            for machine in self.machines
        ]
        names = [machine.name for machine in self.machines]
        self.shared = SharedDirectory(self.folder, names) if self.settings.persist_every_s else None

    def start(self, node: Node) -> None:
        """Start an agent on a machine; it goes on with the memory that is there."""
        node.folder.mkdir(exist_ok=True)
        node.may_end = False
        with node.log.open("ab") as log:
            node.agent = subprocess.Popen(
                [*node.machine.inside, *self._command(node.machine)],
                env={**os.environ, **self._environment(node)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def up(self) -> list[Node]:
        """Return the nodes whose agents run."""
        return [node for node in self.nodes if node.is_up]

    def ended_by_itself(self) -> list[str]:
        """Return a sentence for each agent that has ended without an order."""
        ended = [node for node in self.nodes if node.agent is not None and not node.is_up and not node.may_end]
        return [f"the agent of {node.name} ended with {node.agent.returncode}" for node in ended if node.agent]

    def finish(self) -> None:
        """Let all workers end."""
        self.orders.touch()

    def kill_all(self) -> None:
        """Kill what still runs, and free its memory."""
        for node in self.nodes:
            if node.is_up:
                node.kill(with_memory=False)
            shutil.rmtree(node.folder, ignore_errors=True)

    def _command(self, machine: Machine) -> list[str]:
        conf = "keep_alive=6,last_call_timeout=1,backoff=0,join_timeout=600"
        own = self.settings
        return [
            *(sys.executable, "-m", "elasticjob_agent.cli.main"),
            *("--nnodes", f"{own.least}:4", "--nproc-per-node", str(own.nproc)),
            *("--rdzv-backend", "etcd", "--rdzv-endpoint", self.endpoint, "--rdzv-id", self.run_id),
            *("--max-restarts", "1000000", "--local-addr", machine.address, "--rdzv-conf", conf),
            *("--no-python", sys.executable, "-S", str(_TRAINING), str(self.journal), str(self.orders)),
            *(str(own.step_s), str(own.part_bytes), own.form, str(own.lag_s)),
        ]

    def _environment(self, node: Node) -> dict[str, str]:
        return {
            **self._persist_environment(node),
            "SOAK_NODE": node.name,
            "TMPDIR": str(self.folder),
            constants.ENV_KEEP_DIR: str(node.folder),
            constants.ENV_KEEP_COPIES: str(self.settings.copies),
            constants.ENV_KEEP_SIZE_LIMIT: "64Mi",
            constants.ENV_KEEP_RESTORE_TIMEOUT: f"{scaled(30):g}",
        }

    def _persist_environment(self, node: Node) -> dict[str, str]:
        if self.shared is None:
            return {}
        return {
            constants.ENV_KEEP_PERSIST_TO: str(self.shared.path_of(node.name)),
            constants.ENV_KEEP_PERSIST_EVERY: f"{self.settings.persist_every_s:g}",
        }
