"""One job of a soak: it trains under faults for some minutes, then recovers, commits its newest step, and ends."""

import json
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elasticjob_api.records import SpecRecord
from testing.network.proxy import Proxy
from testing.servers.etcds import OwnEtcd
from testing.waiting import eventually, slowness
from tests.soak.keep.directory_faults import DIRECTORY_FAULTS
from tests.soak.keep.events import JournalReader
from tests.soak.keep.fault_injector import FAULTS, Scene, strike
from tests.soak.keep.fleet import Fleet, Settings
from tests.soak.keep.invariants import find_violations
from tests.soak.keep.network import Machine
from tests.soak.keep.observer import Observer
from tests.soak.keep.persisted_steps import find_missing_at_end
from tests.soak.keep.shared_directory import DirectoryWatch
from tests.soak.keep.volumes import find_excess

_TICK_S = 0.25
_CHECK_S, _LOOK_S = 20.0, 7.0
_STUCK_S = 150.0
"""Seconds without any new step, on a quiet machine, after which a job counts as stuck: ten times the longest fault."""
_COMMIT_S = 120.0
_MOST_MEMBERS = 4
_MORE_COMMITS = 10
"""Steps by which the commit must advance after the first one of a round."""
_FIRST_FAULT_S = 8.0


class InvariantBroken(Exception):
    """A job broke an invariant; the message has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The parts that all jobs of a soak share."""

    folder: Path
    memory: Path
    machines: list[Machine]
    etcd: OwnEtcd
    way: Proxy
    """How the machines reach etcd."""


def draw_settings(rng: random.Random) -> Settings:
    """Return how the next job trains."""
    form = rng.choice(["parts", "parts", "copies"])
    persist_every_s = rng.choice([0.0, 0.0, 0.0, 1.0, 2.0, 5.0])
    return Settings(
        nodes=rng.choice([2, 3, 3, 4]),
        nproc=rng.choice([1, 1, 2]) if form == "parts" else 1,
        copies=rng.choice([1, 1, 1, 2]),
        form=form,
        lag_s=rng.choice([0.0, 0.0, 0.4, 1.5]),
        step_s=rng.choice([0.25, 0.4, 0.8]),
        part_bytes=rng.choice([1_000, 100_000, 400_000]),
        least=rng.choice([1, 2]) if persist_every_s else 2,
        persist_every_s=persist_every_s,
    )


class Episode:
    """One job."""

    def __init__(self, around: Surroundings, number: int, rng: random.Random, every_s: float) -> None:
        """`every_s`: seconds between two faults, on average."""
        self._rng, self._every_s = rng, every_s
        self.settings = draw_settings(rng)
        self.folder = around.folder / f"job-{number:03}"
        self.fleet = Fleet(around.way.endpoint, self.folder, self.settings, around.machines, around.memory)
        (self.folder / "settings.json").write_text(json.dumps(asdict(self.settings)))
        self._etcd = around.etcd
        self._reader = JournalReader(self.fleet.journal)
        self._kinds = {**FAULTS, **(DIRECTORY_FAULTS if self.settings.persist_every_s else {})}
        self.faults = 0

    def run(self, minutes: float) -> None:
        """Train under faults; raise InvariantBroken."""
        with self._observed() as observer:
            scene = Scene(self.fleet, self._etcd, observer, self._rng)
            for node in self.fleet.nodes[: self.settings.nodes]:
                self.fleet.start(node)
            self._strike_until(scene, time.monotonic() + minutes * 60)
            self._recover(scene)
            self._await_joins(observer)
            self._require_commit(observer)
            self._end()
            self._require(find_violations(self._reader.read(), self.settings.copies))

    @contextmanager
    def _observed(self) -> Iterator[Observer]:
        spec = SpecRecord(
            min=self.settings.least,
            max=_MOST_MEMBERS,
            desired=_MOST_MEMBERS,
            max_restarts=1_000_000,
            last_call_timeout_s=1.0,
            scale_up_delay_s=1.0,
            keep_alive_s=6.0,
            backoff_initial_s=0.0,
            keep_copies=self.settings.copies,
        )
        try:
            with (
                Observer(self._etcd.endpoint, self.fleet.run_id, self.fleet.journal, spec) as observer,
                self._watched(observer),
            ):
                yield observer
        finally:
            for machine in self.fleet.machines:
                machine.connect()
            self.fleet.kill_all()
            self._reader.close()

    def _watched(self, observer: Observer) -> AbstractContextManager[object]:
        shared = self.fleet.shared
        return nullcontext() if shared is None else DirectoryWatch(shared, observer.write)

    def _strike_until(self, scene: Scene, until_s: float) -> None:
        next_s = time.monotonic() + _FIRST_FAULT_S
        for now_s in self._ticks(scene, until_s):
            if now_s >= next_s:
                self.faults += bool(strike(scene, self._kinds))
                next_s = now_s + self._rng.expovariate(1 / self._every_s)

    def _ticks(self, scene: Scene, until_s: float) -> Iterator[float]:
        """Yield the time again and again, with all checks beside it."""
        check_s, look_s = time.monotonic() + _CHECK_S, time.monotonic() + _LOOK_S
        moved_s, newest = time.monotonic(), 0.0
        while (now_s := time.monotonic()) < until_s:
            scene.end_due()
            journal = self._reader.read()
            if journal.newest_t > newest:
                moved_s, newest = now_s, journal.newest_t
            if now_s - moved_s > _STUCK_S * slowness():
                raise InvariantBroken(f"no step for {now_s - moved_s:.0f} s")
            if now_s >= check_s:
                self._require([*self.fleet.ended_by_itself(), *find_violations(journal, self.settings.copies)])
                check_s = now_s + _CHECK_S
            if now_s >= look_s and (node := scene.some_node()) is not None:
                self._require([found] if (found := find_excess(node, journal)) else [])
                look_s = now_s + _LOOK_S
            yield now_s
            time.sleep(_TICK_S)

    def _recover(self, scene: Scene) -> None:
        """Wait until all faults have ended, and two nodes at least run."""
        for _ in self._ticks(scene, time.monotonic() + 600):
            if scene.is_quiet:
                break
        for node in self.fleet.nodes[: self.settings.nodes]:
            if not node.is_up:
                self.fleet.start(node)

    def _await_joins(self, observer: Observer) -> None:
        """Wait until each agent has joined: one that joins after the end of the job would wait for others."""
        agents = {node.agent.pid for node in self.fleet.up() if node.agent is not None}
        eventually(lambda: agents <= observer.joined, within_s=_COMMIT_S, what="each agent has joined", pause_s=0.2)

    def _require_commit(self, observer: Observer) -> None:
        """G9: after the last fault training runs, and its newest steps become committed with all copies."""
        members = min(_MOST_MEMBERS, len(self.fleet.up()))
        copies = min(self.settings.copies, members - 1)

        def committed() -> int:
            """Return the lowest number that a node reports as committed in this round with its copies; 0 for none."""
            state = observer.state
            if state is None or len(state.members) != members:
                return 0
            reports = [observer.reports.get(observer.addresses.get(each, ""), {}) for each in state.members]
            return min(_committed_of(report, state.round, copies) for report in reports)

        try:
            first = eventually(committed, within_s=_COMMIT_S, what="each node reports a commit", pause_s=0.2)
            what = f"each node reports a commit after step {first + _MORE_COMMITS}"
            eventually(lambda: committed() > first + _MORE_COMMITS, within_s=_COMMIT_S, what=what, pause_s=0.2)
        except AssertionError as error:
            raise InvariantBroken(f"G9: {error}; reports: {observer.reports}, state: {observer.state}") from error

    def _end(self) -> None:
        """End the job: each agent exits with 0, and no memory is left."""
        self.fleet.finish()
        up = self.fleet.up()
        try:
            eventually(lambda: not self.fleet.up(), within_s=60, what="the end of all agents", pause_s=0.1)
        except AssertionError as error:
            raise InvariantBroken(str(error)) from error
        codes = {node.name: node.agent.returncode for node in up if node.agent is not None}
        left = [str(path) for node in up for path in node.folder.glob("*")]
        self._require([f"agents ended with {codes}"] if any(codes.values()) else [])
        self._require([f"memory is left: {left}"] if left else [])
        if self.fleet.shared is not None:
            self._require([*find_missing_at_end(self._reader.read(), self.fleet.shared.whole_steps())])

    @staticmethod
    def _require(violations: list[str]) -> None:
        if violations:
            raise InvariantBroken("\n".join(violations))


def _committed_of(report: Mapping[str, Any], round_: int, copies: int) -> int:
    """Return the number of the step that a node reports as committed in a round with so many copies; 0 for none."""
    is_of_round = report.get("round") == report.get("lineage_round") == round_
    has_copies = is_of_round and (report["copies"] is None or report["copies"] >= copies) and not report["degraded"]
    return int(report["step"]) if has_copies else 0
