"""A job that keeps steps, with e2e/training/kept.py in its pods: a test decides how far it trains and what it loses."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from e2e import manifests
from e2e.programs import ROOT, run
from e2e.space import KINDS, Space, pod_of
from e2e.training import exact
from testing.waiting import eventually

STEPS = 12
"""Steps of the whole training."""
_SCRIPTS = [ROOT / "e2e" / "training" / name for name in ("kept.py", "exact.py")]
_FOLDER, _CONFIG_MAP = "/train", "training-script"
_PYTHONPATH = {"name": "PYTHONPATH", "value": f"{_FOLDER}:/app"}
"""The image has the example in /app, whose collective operations the script uses."""
_WITHIN_S = 120.0
_KEEP_ALIVE_S = 20
_ORDER = 'echo "$0" > /tmp/target.new && mv /tmp/target.new /tmp/target'
_HELD = "find /var/run/elasticjob/keep -path '*/held/*-of-*.json' 2>/dev/null || true"
_KEEPER = "pid=$(grep -lzx 'elasticjob_agent.keep.keepe[r]' /proc/[0-9]*/cmdline | head -n 1 | cut -d/ -f3)"
_MEMORY = """
findmnt --noheadings --raw --types tmpfs --output TARGET | grep elasticjob-keep
grep -lzx 'elasticjob_agent.keep.keepe[r]' /proc/[0-9]*/cmdline 2>/dev/null
ls -d /dev/shm/elasticjob-keep* 2>/dev/null
true
"""


class Began(NamedTuple):
    """The first report of one rank in a round."""

    restored: int | None
    digest: str
    segments: tuple[tuple[int, int, int], ...]


class Round(NamedTuple):
    """A round whose workers have restored their state."""

    number: int
    pods: tuple[str, ...]
    """By rank."""
    began: tuple[Began, ...]
    """By rank."""

    @property
    def restored(self) -> int | None:
        """Return the step that all have restored, with the parameters of an undisturbed training."""
        [found] = set(self.began)
        assert found.digest == undisturbed(found.restored or 0)
        return found.restored

    @property
    def segments(self) -> tuple[tuple[int, int, int], ...]:
        """Return the rounds that trained the restored step, with the first and last steps of each."""
        [found] = {each.segments for each in self.began}
        return found


@cache
def undisturbed(steps: int) -> str:
    """Return the digest of a training in one process."""
    return exact.trained(steps).digest()


@dataclass(frozen=True, slots=True)
class KeptJob:
    """The job of a namespace."""

    space: Space
    shape: str = exact.SHARDED
    steps: int = STEPS

    def manifest(self, *, keep: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        """Return the job, with other fields of the spec."""
        size = {"replicas": 3, "minReplicas": spec.get("replicas", 3), "nprocPerNode": 1, "maxRestarts": 100}
        wanted = {"sizeLimit": "64Mi", **(keep or {})}
        made = manifests.digits(epochs=1, **{**size, "keep": wanted, **spec})
        container = manifests.trainer(made)
        script, *_ = (str(path.relative_to(ROOT)) for path in _SCRIPTS)
        container["command"] = ["python", f"{_FOLDER}/{script}", self.shape, str(self.steps)]
        container["env"] = [_PYTHONPATH]
        container["volumeMounts"] = [{"name": "scripts", "mountPath": _FOLDER}]
        items = [{"key": path.name, "path": str(path.relative_to(ROOT))} for path in _SCRIPTS]
        scripts = {"name": "scripts", "configMap": {"name": _CONFIG_MAP, "items": items}}
        made["spec"]["template"]["spec"]["volumes"] = [scripts]
        return made

    def start(self, manifest: Mapping[str, Any]) -> Round:
        """Apply the job; return its first round with all pods, which has nothing to restore.

        On a machine with too much to do, no node is lost by the silence of its agent alone.
        """
        manifest["spec"]["rendezvous"]["keepAliveSeconds"] = _KEEP_ALIVE_S
        self.space.kubectl("create", "configmap", _CONFIG_MAP, *(f"--from-file={path}" for path in _SCRIPTS))
        self.space.apply(manifest)
        first = self.next_round(0, manifest["spec"]["replicas"])
        assert first.restored is None
        return first

    def next_round(self, after: int, world: int) -> Round:
        """Wait until this many workers run in a round after that one; return it."""

        def placed_nodes() -> dict[str, Any] | None:
            status = self.space.status() if "status" in self.space.job() else {}
            number, ready = status.get("rendezvousRound", 0), status.get("readyReplicas", 0)
            placed = {node.get("rank") for node in status.get("nodes", ())}
            return status if number > after and ready == world and set(range(world)) <= placed else None

        what = f"{world} nodes in a round after {after}"
        status = eventually(placed_nodes, within_s=_WITHIN_S, what=what, pause_s=0.5)
        assert status is not None
        number = int(status["rendezvousRound"])
        pods = tuple(pod_of(status, rank) for rank in range(world))
        return Round(number, pods, tuple(self._each(pods, lambda pod: self._began(pod, number))))

    def _began(self, pod: str, round_: int) -> Began:
        line = self._report(pod, "began", round_)
        segments = tuple((int(number), int(first), int(last)) for number, first, last in line["segments"])
        return Began(line["restored"], line["digest"], segments)

    def train_to(self, step: int, round_: Round, pods: Sequence[str] = ()) -> None:
        """Let these pods, or all, train up to this step, and wait until their workers have published it."""
        self.order(step, pods or round_.pods)
        for pod in pods or round_.pods:
            self._report(pod, "published", round_.number, step)

    def order(self, step: int, pods: Sequence[str]) -> None:
        """Let these pods train up to this step."""
        list(self._each(pods, lambda pod: self.space.kubectl("exec", pod, "--", "sh", "-c", _ORDER, str(step))))

    def finish(self, round_: Round) -> None:
        """Train to the end, check the result, and that nothing is left of the job when it is deleted."""
        self.order(self.steps, round_.pods)
        for pod in round_.pods:
            end = self._report(pod, "ended", round_.number)
            assert end["digest"] == undisturbed(self.steps)
        self.space.wait(phase="Succeeded")
        self.space.delete_job()
        assert self.space.objects(KINDS) == []
        self.await_no_memory()

    def _report(self, pod: str, event: str, round_: int, step: int | None = None) -> dict[str, Any]:
        """Return the report of the worker of this pod, which it may still have to print."""
        wanted = rf'"event": "{event}", "round": {round_}, ' + ("" if step is None else rf'.*"step": {step}\}}')
        found: dict[str, Any] = json.loads(self.space.log(pod, until=wanted)[-1][1])
        return found

    @staticmethod
    def _each(pods: Iterable[str], act: Callable[[str], Any]) -> list[Any]:
        with ThreadPoolExecutor(8) as threads:
            return [*threads.map(act, pods)]

    # --- what is held ------------------------------------------------------------------------------------------------

    def held(self, pod: str) -> set[tuple[int, str]]:
        """Return the parts in the memory of a pod, by number and name."""
        found = self.space.kubectl("exec", pod, "--", "sh", "-c", _HELD).split()
        names = [path.removesuffix(".json").split("/")[-2:] for path in found]
        return {(int(number), name) for number, name in names}

    def await_copies(self, step: int, round_: Round, *, holders: int = 2) -> None:
        """Wait until each part of this step, one of each rank, is in the memory of so many pods."""

        def are_there() -> bool:
            parts = [name for held in self._each(round_.pods, self.held) for number, name in held if number == step]
            counts = Counter(parts).values()
            return len(counts) == len(round_.pods) and min(counts) >= holders

        eventually(are_there, within_s=60, what=f"a copy of each part of step {step}", pause_s=0.5)

    def memory(self) -> list[str]:
        """Return the volumes in memory for kept steps, and the keepers, on the nodes of the cluster."""
        return [f"{node}: {line}" for node in self.space.cluster.workers() for line in _memory_of(node)]

    def await_no_memory(self) -> None:
        """Wait until no node has a volume in memory for kept steps, nor a keeper."""
        eventually(lambda: not self.memory(), within_s=90, what="no memory of kept steps", pause_s=1)

    # --- losses ------------------------------------------------------------------------------------------------------

    def exec(self, pod: str, script: str) -> str:
        """Return the output of a shell script in a pod."""
        return self.space.kubectl("exec", pod, "--", "sh", "-c", script)

    def kill_keeper(self, pod: str) -> None:
        """Send SIGKILL to the keeper, and wait until the agent has started another one."""
        killed = self.exec(pod, f'{_KEEPER}; kill -9 "$pid"; echo "$pid"').strip()

        def is_another() -> bool:
            return self.exec(pod, f'{_KEEPER}; echo "$pid"').strip() not in {"", killed}

        eventually(is_another, within_s=60, what="another keeper", pause_s=0.2)

    @contextmanager
    def frozen(self, pod: str) -> Iterator[None]:
        """Stop the agent, the keeper and the worker of a pod; at the end they continue."""
        self.exec(pod, "kill -STOP -1")
        try:
            yield
        finally:
            self.exec(pod, "kill -CONT -1")

    def kill_all_processes(self, *pods: str) -> float:
        """Send SIGKILL to all processes of these pods at once; return the time. A container ends with its agent."""
        script = "date +%s.%N; kill -9 -1"
        return min(float(each) for each in self._each(pods, lambda pod: self._dies(pod, script)))

    def _dies(self, pod: str, script: str) -> str:
        return self.space.first_line_before_death(pod, "sh", "-c", script)


def _memory_of(node: str) -> list[str]:
    return run("docker", "exec", node, "bash", "-c", _MEMORY).splitlines()
