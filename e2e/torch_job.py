"""A job that trains with torch in two pods of one worker: its start, the steps of its rounds, and the kill of a worker.

Times are seconds of the machine's clock, which all nodes of a kind cluster share.
"""

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from e2e.manifests import ENDLESS, digits, injected, patient, spread, trainer
from e2e.programs import ROOT
from e2e.space import Space
from e2e.torch_python import TorchPython
from testing.waiting import eventually

AUTO, OFF = "Auto", "Off"
WORLD = 2
PRINTED = 20
"""Steps of each round that a worker prints."""
_SCRIPT = ROOT / "e2e" / "training" / "ddp.py"
_FOLDER, _CONFIG_MAP = "/train", "training-script"
_ZYGOTE_IS_READY = r"warm start: the zygote and 1 waiting workers take"
_KILL = 'date +%s.%N; kill -9 "$0"'
_COUNT = 'readlink /proc/[0-9]*/exe | grep -cx "$0" || true'
_WARM_PROCESSES = 3
"""A worker, the zygote, and the worker of the next round."""


class Step(NamedTuple):
    """One step of one rank, from the output of its worker."""

    round: int
    step: int
    rank: int
    at_s: float
    loss: str
    """In hexadecimal digits, which are exact."""
    is_warm: bool
    """Whether torch was imported before the script's first line."""
    pid: int


class Round(NamedTuple):
    """The first steps of all ranks in one round."""

    steps: tuple[Step, ...]

    @property
    def first_step_at_s(self) -> float:
        """Return when the last rank had trained its first step."""
        return max(step.at_s for step in self.steps if step.step == 1)

    @property
    def warm(self) -> list[bool]:
        """Return by rank whether its worker was started warm."""
        return [next(step.is_warm for step in self.steps if step.rank == rank) for rank in range(WORLD)]

    @property
    def losses(self) -> tuple[tuple[str, ...], ...]:
        """Return the losses of each rank."""
        return tuple(tuple(step.loss for step in self.steps if step.rank == rank) for rank in range(WORLD))

    def pid(self, rank: int) -> int:
        """Return the process of this rank, as its pod numbers it."""
        return next(step.pid for step in self.steps if step.rank == rank)


@dataclass(frozen=True, slots=True)
class TorchJob:
    """The job of a namespace."""

    space: Space
    python: TorchPython
    warm_start: str
    key: str = field(default_factory=secrets.token_hex)
    """A part of the command: only jobs with the same one have a common import profile."""

    def start(self) -> Round:
        """Apply the job; return its first round, once that has trained."""
        self.space.kubectl("delete", "configmap", _CONFIG_MAP, "--ignore-not-found")
        self.space.kubectl("create", "configmap", _CONFIG_MAP, f"--from-file={_SCRIPT}")
        self.space.apply(self._manifest())
        status = self.space.wait(phase="Running", readyReplicas=WORLD)
        return self.round(status["rendezvousRound"])

    def round(self, number: int) -> Round:
        """Wait until all ranks have printed their steps of this round, the current one; return them."""
        self.space.wait(rendezvousRound=number, readyReplicas=WORLD)
        return self._printed(number, self.pods())

    def pods(self) -> list[str]:
        """Return the pod of each rank, once the status has all ranks."""

        def placed() -> list[str]:
            nodes = {node.get("rank"): str(node["podName"]) for node in self.space.status()["nodes"]}
            return [nodes[rank] for rank in range(WORLD)] if set(range(WORLD)) <= nodes.keys() else []

        return eventually(placed, within_s=60, what="a pod for each rank", pause_s=0.5)

    def await_forked_ahead(self) -> None:
        """Wait until each pod has a worker for the next round."""
        for pod in self.pods():
            self.space.log(pod, until=_ZYGOTE_IS_READY)
            self._await_processes(pod)

    def kill_worker(self, rank: int, number: int) -> tuple[float, Round]:
        """Kill this rank in the round of this number; return the time before, and the next round."""
        pods = self.pods()
        pid = self._printed(number, pods).pid(rank)
        killed_at_s = float(self.space.kubectl("exec", pods[rank], "--", "sh", "-c", _KILL, str(pid)))
        return killed_at_s, self._printed(number + 1, pods)

    def _printed(self, number: int, pods: list[str]) -> Round:
        last = rf'"round": {number}, "step": {PRINTED}, '
        lines = [text for pod in pods for _, text in self.space.log(pod, until=last)]
        return Round(tuple(step for step in _parse(lines) if step.round == number))

    def _await_processes(self, pod: str) -> None:
        """Wait until enough processes of the pod execute the Python with torch."""
        count = ("exec", pod, "--", "sh", "-c", _COUNT, str(self.python.binary))
        eventually(
            lambda: int(self.space.kubectl(*count)) >= _WARM_PROCESSES,
            within_s=60,
            what=f"{pod} has a worker for the next round",
            pause_s=0.5,
        )

    def _manifest(self) -> dict[str, Any]:
        size = {"replicas": WORLD, "minReplicas": WORLD, "nprocPerNode": 1, "maxRestarts": 100}
        manifest = spread(patient(injected(digits(epochs=ENDLESS, **size))))
        manifest["spec"]["agent"]["warmStart"] = self.warm_start
        pod, container = manifest["spec"]["template"]["spec"], trainer(manifest)
        container["command"] = [str(self.python.path), f"{_FOLDER}/{_SCRIPT.name}", str(PRINTED), self.key]
        container["volumeMounts"].append({"name": "script", "mountPath": _FOLDER})
        pod["volumes"].append({"name": "script", "configMap": {"name": _CONFIG_MAP}})
        self.python.add_to(pod, container)
        return manifest


def _parse(lines: list[str]) -> Iterator[Step]:
    for line in lines:
        if line.startswith("{"):  # a pod of one worker puts nothing before its lines
            yield Step(**json.loads(line))
