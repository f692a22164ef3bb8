"""The acts of one keeper on its volume: it takes, announces, drops and links as the rules decide.

The main thread calls it for the agent. Threads of transfers call it when a peer offers a part, and when something is
committed. So one lock guards what is known of the round.
"""

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.keep.keeper.incoming_watch import IncomingWatch
from elasticjob_agent.keep.keeper.inotify import InotifyWatch
from elasticjob_agent.keep.keeper.memory_limit import MemoryLimit
from elasticjob_agent.keep.keeper.messages import BeginRequest, JoinRequest, KeeperStatus, OpenRequest
from elasticjob_agent.keep.keeper.published_parts import find_parts
from elasticjob_agent.keep.rules import replication, retention
from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.rules.missing_parts import OldestWait
from elasticjob_agent.keep.rules.persisting import PersistAnnouncement
from elasticjob_agent.keep.rules.replication import OfferAnswer, RoundPlace
from elasticjob_agent.keep.volume.paths import KeptPart, parts_of
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage

_ALONE = RoundPlace(rank=0, members=1, base_rank=0, workers=1, world_size=1)
"""The place of a node that knows no peers."""


class StepKeeper:
    """The volume of one node, and the round whose workers publish into it."""

    def __init__(self, opened: OpenRequest, *, report: Callable[[str], None], on_change: Callable[[], None]) -> None:
        """Open the volume, and take what was published while no keeper ran; raise VolumeError."""
        self._report = report
        self._lock = threading.RLock()
        self._known: retention.KeeperRound | None = None
        self._lineage: Lineage | None = None
        self._history = History()
        """The steps that the training descends from, also in the round."""
        self._place = _ALONE
        self._indices: dict[int, frozenset[int]] = {}
        """The indices that the workers of this node publish in the round, by the count of parts."""
        self._told: dict[KeptStep, frozenset[int]] = {}
        """The parts that were announced in the round, of steps that are still held."""
        self.point: SafePoint | None = None
        """The answer of the commit channel that counts."""
        self._committed: KeptStep | None = None
        self._taken = self._refused = 0
        self.skipped = 0
        """How many own parts were dropped, or not taken, because they were not copied before newer ones."""
        self.trouble = ""
        """Why the next step has no room, with the cure; empty if it has."""
        self._wait = OldestWait()
        self._inotify = InotifyWatch()
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
        self.memory = MemoryLimit(self.volume)
        self._found: Holdings = dict(self.volume.holdings())
        """The parts that a predecessor held, and may have announced. It announced no part that it had not taken."""
        for lineage in self.volume.incoming_lineages():
            self._take(lineage, self.volume.published_names(lineage))

    # --- rounds ------------------------------------------------------------------------------------------------------

    def join(self, joined: JoinRequest) -> None:
        """Drop what belongs to another run or is not alive; raise VolumeError."""
        with self._lock:
            if joined.run != self.volume.run:
                self._committed = self.point = None
            self.volume.adopt_run(joined.run)
            if joined.history is not None:
                self._drop_dead(joined.history, joined.active)

    def begin(self, begun: BeginRequest) -> Path:
        """Drop what is not alive; return the directory in which the workers of the round publish; raise VolumeError."""
        with self._lock:
            if self._lineage not in {None, begun.lineage}:
                self.seal()  # its workers are reaped, or no round would follow
            self._close_watch()
            self.volume.adopt_run(begun.run)
            self._drop_dead(begun.history, begun.lineage)
            self._known = retention.KeeperRound(begun.lineage, begun.restored)
            if self._lineage != begun.lineage:
                self._told = {step: parts for step, parts in self._found.items() if step.lineage == begun.lineage}
            self._lineage = begun.lineage
            self._history = begun.history.with_lineage(begun.lineage)
            if self._committed is not None and not self._history.is_alive(self._committed):
                self._committed = None  # it was given up
            self._place = begun.place or _ALONE
            self.memory.copies = begun.copies
            self._wait = OldestWait()
            self._indices = self.volume.published_in(begun.lineage).indices()
            directory = self.volume.begin_round(begun.lineage)
            self.watch = IncomingWatch(directory, self._inotify)
            self._take(begun.lineage, self.volume.published_names(begun.lineage))
            return directory

    def start(self) -> None:
        """Allow to drop steps: the workers of the round have started; raise VolumeError."""
        with self._lock:
            if self._known is not None:
                self._known = replace(self._known, is_running=True)
                if self.point is not None:
                    self.learn(self.point)  # it came before, as to a keeper that replaces another one
                self._drop_superseded()
                if any(step.lineage == self._lineage for step in self.volume.holdings()):  # taken without a look
                    self.volume.unlink_dropped()
                    self.trouble = self.memory.lack_of_room((), with_drafts=True)

    def seal(self) -> Holdings:
        """Take all that the workers have published, forget the round, and return the holdings; raise VolumeError."""
        with self._lock:
            if self._lineage is not None:
                self.take_published()
                self._close_watch()
                self.volume.end_round(self._lineage)
            self._known = self._lineage = None
            self._drop_colliding()
            return self.volume.holdings()

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

    def close(self) -> None:
        """Release the volume for another keeper, and the instance of inotify, of which a user has few."""
        self._close_watch()
        self._inotify.close()
        self.volume.close()

    def status(self) -> KeeperStatus:
        """Return counts for reports."""
        return KeeperStatus(
            held_bytes=self.volume.sums.size,
            taken=self._taken,
            refused=self._refused,
            skipped=self.skipped,
            is_polling=self.watch is not None and self.watch.pause_s is not None,
        )

    # --- peers -------------------------------------------------------------------------------------------------------

    def learn(self, point: SafePoint) -> None:
        """Drop what the answer of the commit channel makes superfluous; raise VolumeError."""
        with self._lock:
            self.point = retention.latest_point(self._known, self.point, point)
            if self._known is not None and self.point is not None:
                self._known = retention.learn(self._known, self.point)
                self._committed = self._known.committed or self._committed
                self._drop_unneeded()

    def announcement(self, settled: KeptStep | None, persist: PersistAnnouncement | None = None) -> Announcement | None:
        """Return what the leader's keeper is to know; None while no round is active.

        `settled` is the step of which no further copies are made, `persist` what is known of the shared directory.
        """
        with self._lock:
            if self._known is None:
                return None
            self._drop_colliding()
            own, held = self._own(), self.volume.holdings()
            told = retention.announced(self._known, own, held)
            before, none = self._told, frozenset[int]()
            self._told = {step: before.get(step, none) | told.get(step, none) for step in held}
            oldest = retention.oldest_uncommitted(self._known, own)
            self._wait = self._wait.after(own, oldest)
            return Announcement(
                lineage=self._known.lineage,
                held=told,
                committed=self._known.committed,
                oldest_uncommitted=oldest,
                is_settled=oldest is not None and oldest == settled,
                is_restored=self._known.is_running,
                is_overdue=self._wait.is_overdue,
                persist=persist,
            )

    def parts_to_copy(self) -> tuple[KeptStep, frozenset[int]] | None:
        """Return the oldest uncommitted step and its parts that are copied to peers now; None if there is none."""
        with self._lock:
            if self._known is None or not self._known.is_running:
                return None
            own = self._own()
            oldest = retention.oldest_uncommitted(self._known, own)
            return None if oldest is None else (oldest, own[oldest])

    def own_parts(self, step: KeptStep) -> frozenset[int]:
        """Return the parts of this step that are this node's own in the round."""
        with self._lock:
            return self._own().get(step, frozenset())

    def answer_offer(self, sender: Lineage, part: KeptPart) -> OfferAnswer:
        """Return the answer to a peer of the round `sender` that offers this part. The volume itself has the room."""
        with self._lock:
            if part.step in self.volume.conflicts.steps:
                return OfferAnswer.DEAD
            held, own = self.volume.holdings(), self._own()
            step, index = part.step, part.index
            return replication.answer_offer(
                self._known, self._history, sender, step, index, held=held, own=own, has_room=True
            )

    def drop_outdated(self, offered: KeptStep) -> None:
        """Drop what has arrived of older steps, now that a peer puts a part of this one here; raise VolumeError."""
        with self._lock:
            if self._known is not None:
                partial = self.volume.partial_parts()
                steps = retention.outdated(self._known, offered, {part.step for part in partial})
                self.volume.drop(part for part in partial if part.step in steps)

    def on_received(self) -> None:
        """Drop what is superfluous now that a peer has put a part here; raise VolumeError."""
        with self._lock:
            self._drop_unneeded()
            self._drop_superseded()

    @property
    def committed(self) -> KeptStep | None:
        """The newest step that is known to be committed, also one of an earlier round."""
        return self._committed

    @property
    def history(self) -> History:
        """The steps that the training descends from, also in the last round."""
        return self._history

    @property
    def is_running(self) -> bool:
        """Whether the workers of a round run."""
        return self._known is not None and self._known.is_running

    def _own(self) -> Holdings:
        """Return the parts whose copies are this node's task."""
        if self._known is None:
            return {}
        held = self.volume.holdings()
        own = {step: replication.own_parts(self._known, step, self._place, self._indices, held) for step in held}
        return {step: parts for step, parts in own.items() if parts}

    def _counted(self, own: Holdings) -> set[KeptStep]:
        """Return the steps whose own parts were announced in the round."""
        return {step for step, parts in own.items() if parts & self._told.get(step, frozenset())}

    # --- taking ------------------------------------------------------------------------------------------------------

    def take_new(self) -> bool:
        """Take what the watch has noticed; return whether it has noticed anything; raise VolumeError."""
        with self._lock:
            if self.watch is None or self._lineage is None:
                return False
            names = self.watch.new_names()
            found = self.volume.published_names(self._lineage) if names is None else names
            noticed = dict.fromkeys([*found, *self.watch.unpublished_names()])
            self._take(self._lineage, noticed)
            return bool(noticed)

    def take_published(self) -> None:
        """Take everything that is in the directory of the round; raise VolumeError."""
        self.take_new()  # for the names that were made in place
        if self._lineage is not None:
            self._take(self._lineage, self.volume.published_names(self._lineage))

    def _take(self, lineage: Lineage, names: Iterable[str]) -> None:
        parts = find_parts(lineage, names, self.watch, self.volume.script_errors)
        has_room = True
        for step, published in itertools.groupby(sorted(parts), key=lambda each: each[0].step):
            has_room = self._take_step(step, list(published))
        if not has_room:
            self._make_room()

    def _take_step(self, step: KeptStep, published: Sequence[tuple[KeptPart, str]]) -> bool:
        """Take the parts of one step, and apply the rules once; return whether one more part is known to have room."""
        if self._check_skipped(step, {part.index for part, _ in published}):
            self.skipped += len(published)
            self.volume.skip_step(published)
            return False
        before = self.volume.holdings().get(step, frozenset())
        numbers = {part.index: self.volume.published_in(step.lineage).highest(part) for part, _ in published}
        taken = self.volume.take_step(published)
        self._taken += len(taken)
        self._refused += len(published) - len(taken)
        is_new = not before.issuperset(part.index for part in taken)
        has_room = is_new and self._check_room(step)
        self._skip_incomplete(step, {part.index: numbers[part.index] for part in taken})
        self._drop_unneeded()
        self._drop_superseded()
        return has_room

    def _check_skipped(self, step: KeptStep, indices: Collection[int]) -> bool:
        """Note these indices as those of this node; return whether its parts of this step are not taken."""
        if self._known is None or self._known.lineage != step.lineage:
            return False
        self._indices[step.parts] = self._indices.get(step.parts, frozenset()) | frozenset(indices)
        return retention.is_skipped(self._known, self._own(), step)

    # --- dropping ----------------------------------------------------------------------------------------------------

    def _drop_dead(self, history: History, active: Lineage | None) -> None:
        here = self._steps_here()
        alive = retention.select_alive(dict.fromkeys(here, frozenset()), history, active)
        self._drop_steps(here.difference(alive))

    def _drop_colliding(self) -> None:
        """Drop the steps whose parts exclude each other: none of them is announced, so none is committed."""
        if self.volume.conflicts.steps:
            self._drop_steps(self._steps_here() & set(self.volume.conflicts.steps))

    def _drop_unneeded(self) -> None:
        """Drop what the last answer of the commit channel makes superfluous, also among what came later.

        The leader's keeper sends no answer twice. A step below the floor would wait for copies that no member makes.
        """
        if self._known is not None and self.point is not None:
            self._drop_steps(retention.unneeded(self._known, self.point, self._steps_here()))

    def _steps_here(self) -> set[KeptStep]:
        """Return the steps of which a part is held, or has arrived in part."""
        return {part.step for part in self.volume.partial_parts()} | self.volume.holdings().keys()

    def _drop_superseded(self) -> None:
        if self._known is not None and self._known.is_running:
            parts = self._superseded(self._own(), self._known)
            if parts:
                self.skipped += len(parts)
                self.volume.drop(parts)

    def _superseded(self, own: Holdings, known: retention.KeeperRound) -> list[KeptPart]:
        return parts_of(own, retention.superseded(known, own, self._counted(own)))

    def _check_room(self, taken: KeptStep) -> bool:
        """Return whether there is room for one more part; drop this step if none is left beside it.

        It is not announced yet. The steps that it supersedes may be committed already, so those stay.
        """
        if self._known is None or not self._known.is_running:
            return False
        if self.memory.has_room():
            self.trouble = ""
            return True
        self.volume.unlink_dropped()
        own = self._own()
        self.trouble = self.memory.lack_of_room(self._superseded(own, self._known))
        if self.trouble and retention.may_skip(self._known, own, taken):
            parts = parts_of(own, [taken])
            self.skipped += len(parts)
            self._report(f"step {taken.number} was dropped: {self.trouble}")
            self.volume.drop(parts)
        return False

    def _skip_incomplete(self, taken: KeptStep, before: Mapping[int, int]) -> None:
        """Drop older steps without a part that a worker of this node has passed."""
        if self._known is None or not self._known.is_running or len(self._indices.get(taken.parts, ())) <= 1:
            return
        own = self._own()
        parts = parts_of(own, retention.incomplete(self._known, own, taken, before))
        self.skipped += len(parts)
        self.volume.drop(parts)

    def _make_room(self) -> None:
        """Make room for one more part as large as the largest own one, as far as that is allowed."""
        for drop in (self.volume.unlink_dropped, self.volume.drop_partial):
            if self.memory.has_room():
                return
            drop()

    def _drop_steps(self, steps: Collection[KeptStep]) -> None:
        if not steps:  # the usual case, at each part that is taken: the look at the volume reads a directory
            return
        parts = {*self.volume.parts(), *self.volume.partial_parts()}
        self.volume.drop([part for part in parts if part.step in steps])

    def _close_watch(self) -> None:
        if self.watch is not None:
            self.watch.close()
            self.watch = None
