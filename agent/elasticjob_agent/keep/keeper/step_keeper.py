"""The acts of one keeper on its volume: it takes, drops and links as the rules decide.

The main thread calls it for the agent, and the thread of the commit channel when something is committed. So one lock
guards what is known of the round.
"""

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.keep.keeper.incoming_watch import IncomingWatch
from elasticjob_agent.keep.keeper.messages import BeginRequest, KeeperStatus, OpenRequest
from elasticjob_agent.keep.rules import retention
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.step_name import is_step_name, parse_step_name
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Holdings, KeptStep, Lineage

_MOST_NAMES = 100
"""So many wrong names of one round are reported."""


class StepKeeper:
    """The volume of one node, and the round whose workers publish into it."""

    def __init__(self, opened: OpenRequest, *, report: Callable[[str], None], on_change: Callable[[], None]) -> None:
        """Open the volume, and take what was published while no keeper ran; raise VolumeError."""
        self._report = report
        self._lock = threading.RLock()
        self._known: retention.KeeperRound | None = None
        self._lineage: Lineage | None = None
        self._taken = self._refused = self._skipped = 0
        self._named: set[str] = set()
        """Names that were reported already; they stay where they are."""
        self.watch: IncomingWatch | None = None
        self.volume = Volume(
            Path(opened.root),
            job=opened.job,
            run=opened.run,
            size_limit=opened.size_limit,
            workers_mode=opened.workers_mode,
            report=report,
            on_change=on_change,
        )
        for lineage in self.volume.incoming_lineages():
            self._take(lineage, self.volume.published_names(lineage))

    # --- rounds ------------------------------------------------------------------------------------------------------

    def begin(self, begun: BeginRequest) -> Path:
        """Drop what is not alive; return the directory in which the workers of the round publish; raise VolumeError."""
        with self._lock:
            if self._lineage not in {None, begun.lineage}:
                self.seal()  # its workers are reaped, or no round would follow
            self._close_watch()
            self.volume.adopt_run(begun.run)
            self._drop_dead(begun)
            self._known = retention.KeeperRound(begun.lineage, begun.restored)
            self._lineage = begun.lineage
            self._named.clear()
            directory = self.volume.begin_round(begun.lineage)
            self.watch = IncomingWatch(directory)
            self._take(begun.lineage, self.volume.published_names(begun.lineage))
            return directory

    def start(self) -> None:
        """Allow to drop steps: the workers of the round have started; raise VolumeError."""
        with self._lock:
            if self._known is not None:
                self._known = replace(self._known, is_running=True)
                self._drop_superseded()

    def seal(self) -> Holdings:
        """Take all that the workers have published, forget the round, and return the holdings; raise VolumeError."""
        with self._lock:
            if self._lineage is not None:
                self.take_published()
                self._close_watch()
                self.volume.end_round(self._lineage)
            self._known = self._lineage = None
            return self.volume.holdings()

    def learn(self, point: SafePoint) -> None:
        """Drop what the answer of the commit channel makes superfluous; raise VolumeError."""
        with self._lock:
            if self._known is not None:
                self._known = retention.learn(self._known, point)
                self._drop_steps(retention.unneeded(self._known, point, self.volume.holdings()))

    def drop(self, steps: Collection[KeptStep]) -> None:
        """Drop these steps; raise VolumeError."""
        with self._lock:
            self._drop_steps(steps)

    def restore(self, step: KeptStep) -> Path:
        """Return a directory with the files of all parts of a step; raise VolumeError."""
        return self.volume.link(step, range(step.parts))

    def erase(self) -> None:
        """Delete the whole volume; raise VolumeError."""
        with self._lock:
            self._close_watch()
            self._known = self._lineage = None
            self.volume.erase()

    def oldest_uncommitted(self) -> KeptStep | None:
        """Return the own step that is copied to peers now."""
        with self._lock:
            return None if self._known is None else retention.oldest_uncommitted(self._known, self._own_steps())

    def status(self) -> KeeperStatus:
        """Return counts for reports; raise VolumeError."""
        return KeeperStatus(
            held_bytes=sum(manifest.size for manifest in self.volume.parts().values()),
            free_bytes=self.volume.free_bytes(),
            taken=self._taken,
            refused=self._refused,
            skipped=self._skipped,
            is_polling=self.watch is not None and self.watch.pause_s is not None,
        )

    # --- taking ------------------------------------------------------------------------------------------------------

    def take_new(self) -> None:
        """Take what the watch has noticed; raise VolumeError."""
        with self._lock:
            if self.watch is None or self._lineage is None:
                return
            names = self.watch.new_names()
            self._take(self._lineage, self.volume.published_names(self._lineage) if names is None else names)

    def take_published(self) -> None:
        """Take everything that is in the directory of the round; raise VolumeError."""
        self.take_new()  # for the names that were made in place
        if self._lineage is not None:
            self._take(self._lineage, self.volume.published_names(self._lineage))

    def _take(self, lineage: Lineage, names: Iterable[str]) -> None:
        parts = [(part, name) for name in names if is_step_name(name) and (part := self._parse(lineage, name))]
        for part, name in sorted(parts):
            is_held = self.volume.take(name, part)
            self._taken += is_held
            self._refused += not is_held
        if parts:
            if not self._skip_without_room({part.step for part, _ in parts}):
                self._drop_superseded()
            self._make_room()

    def _parse(self, lineage: Lineage, name: str) -> KeptPart | None:
        """Return the part that was published under this name; None, with a report, if nothing was."""
        try:
            found = parse_step_name(name)
            part = KeptPart(found.step_of(lineage), found.index)
        except RecordError as error:
            self._report_once(name, str(error))
            return None
        if self.watch is not None and self.watch.was_made_in_place(name):
            self._report_once(name, f"{name} was made under this name; write it under another one, then rename it")
            return None
        return part

    def _report_once(self, name: str, sentence: str) -> None:
        if name not in self._named and len(self._named) < _MOST_NAMES:
            self._named.add(name)
            self._report(sentence)

    # --- dropping ----------------------------------------------------------------------------------------------------

    def _drop_dead(self, begun: BeginRequest) -> None:
        here = {part.step for part in self.volume.partial_parts()} | set(self.volume.holdings())
        alive = retention.select_alive(dict.fromkeys(here, frozenset()), begun.history, begun.lineage)
        self._drop_steps(here.difference(alive))

    def _drop_superseded(self) -> None:
        if self._known is not None and self._known.is_running:
            steps = retention.superseded(self._known, self._own_steps())
            parts = self._own_parts(steps)
            self._skipped += len(parts)
            self.volume.drop(parts)

    def _skip_without_room(self, taken: Collection[KeptStep]) -> bool:
        """Drop these steps if no room is left beside them, and return whether that was so.

        They are not announced yet. The steps that they supersede may be committed already, so those stay.
        """
        if self._known is None or not self._known.is_running:
            return False
        if not self._has_room():
            self.volume.unlink_dropped()
        own = self._own_steps()
        if self._has_room(without=self._own_parts(retention.superseded(self._known, own))):
            return False
        parts = self._own_parts([step for step in taken if retention.may_skip(self._known, own, step)])
        if parts:
            self._skipped += len(parts)
            self._report(f"{parts[0].step} was dropped: there is no room for one more step beside it")
            self.volume.drop(parts)
        return bool(parts)

    def _make_room(self) -> None:
        """Make room for one more part as large as the largest own one, as far as that is allowed."""
        for drop in (self.volume.unlink_dropped, self.volume.drop_partial):
            if self._has_room():
                return
            drop()

    def _has_room(self, *, without: Collection[KeptPart] = ()) -> bool:
        """Whether one more part as large as the largest own one has room, when those given are dropped."""
        held = self.volume.parts()
        needed = max((manifest.size for manifest in held.values() if manifest.is_own), default=0)
        dropped = sum(held[part].size for part in without)
        return self.volume.free_bytes() + self.volume.trash_bytes() + dropped >= needed

    def _drop_steps(self, steps: Collection[KeptStep]) -> None:
        parts = {*self.volume.parts(), *self.volume.partial_parts()}
        self.volume.drop([part for part in parts if part.step in steps])

    def _own_steps(self) -> set[KeptStep]:
        """Return the steps whose copies are this node's task: those that it wrote, and the restored one."""
        held = self.volume.parts()
        restored = None if self._known is None else self._known.restored
        return {part.step for part, manifest in held.items() if manifest.is_own or part.step == restored}

    def _own_parts(self, steps: Collection[KeptStep]) -> list[KeptPart]:
        return [part for part, manifest in self.volume.parts().items() if manifest.is_own and part.step in steps]

    def _close_watch(self) -> None:
        if self.watch is not None:
            self.watch.close()
            self.watch = None
