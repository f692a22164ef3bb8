"""The part of a keeper that persists steps: it pins parts in memory, lets the writer write them, and keeps count.

Threads of transfers call it with orders, the main thread with requests, and the thread of the writer with ends. No call
waits. A failed write is reported, and tried again with a later order.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.keep.keeper.messages import (
    BeginRequest,
    FetchRequest,
    FetchResult,
    OpenRequest,
)
from elasticjob_agent.keep.keeper.persist_messages import DrainRequest, DrainResult, ListRequest, PersistUpdate
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.persist.layout import SourceFile
from elasticjob_agent.keep.persist.messages import (
    CheckCommand,
    ListCommand,
    PartFiles,
    RemoveCommand,
    WriteCommand,
    WriterAnswer,
)
from elasticjob_agent.keep.persist.writer_process import STALL_S, WriterProcess
from elasticjob_agent.keep.rules import persisting
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.persisting import PersistAnnouncement, PersistOrder, PersistTimer
from elasticjob_agent.keep.volume.errors import VolumeError
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import History, Holdings, KeptStep, PersistedStep
from elasticjob_api.rendezvous_state import Member

_MOST_STEPS = 256
"""So many of the newest whole steps are reported to the agent."""
_LIST_AGAIN_S = 5.0
_CAUSES = ("directory", "write", "order")
"""Obstacles: the directory, the last write, the leader's orders. An earlier one may cause a later one."""


class Persistence:
    """The persisted steps of one keeper."""

    def __init__(
        self,
        opened: OpenRequest,
        steps: StepKeeper,
        *,
        report: Callable[[str], None],
        send: Callable[[PersistUpdate | DrainResult | FetchResult], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """List what is whole at once. `report` and `send` are called from any thread."""
        self._steps = steps
        self._report = report
        self._send = send
        self._clock = clock
        self._shared = opened.persist_to
        self._keep = opened.persist_keep
        self._wanted = opened.persisted_step
        """The directory has to have a step of this number or a higher one before it is used; None: it may be used."""
        self._lock = threading.RLock()
        self._schedule = PersistTimer(opened.persist_every_s, now_s=clock())
        self._writer = WriterProcess(opened.persist_to, opened.job, stall_s=opened.persist_stall_s or STALL_S)
        self._me: Member | None = None
        self._rate = 0
        self._older = History()
        """The steps behind the history that count in the shared directory only."""
        self._id = ""
        self._found: dict[PersistedStep, int] = {}
        self._in_use: PersistedStep | None = None
        self._removed_for: PersistedStep | None = None
        """The newest step for which older ones were removed, or which was there when the round began."""
        self._order: PersistOrder | None = None
        """The last order that was taken."""
        self._led: PersistOrder | None = None
        """The last order that was given in the round that this keeper leads."""
        self._writing: KeptStep | None = None
        self._troubles: dict[str, str] = {}
        """The troubles, by `_CAUSES`."""
        self._failed: KeptStep | None = None
        """The step of the last write, if that has failed."""
        self._failures = 0
        self._seen_due_s: float | None = None
        self._number = 0
        self._update: PersistUpdate | None = None
        self._is_listing = False
        """Whether a list is awaited, or the pause after one that has failed."""
        self._lists_again = False
        """Whether there was news since the list that is awaited was ordered."""
        self._wanted_list = self._ordered_list = self._list_number = 0
        """The numbers of the agent's requests: the last one; that of the list that is awaited, or the newest one."""
        self._list()

    # --- requests ----------------------------------------------------------------------------------------------------

    def join(self, me: Member) -> None:
        """Be this member."""
        with self._lock:
            self._me = me
        self._notify()

    def begin(self, begun: BeginRequest) -> None:
        """Know the round: how fast it may write, and the step that its workers may read."""
        with self._lock:
            self._rate, self._older = begun.bandwidth, begun.older
            self._in_use = PersistedStep.parse(begun.in_use) if begun.in_use else None
            self._removed_for = self._newest_of_run()

    def start(self) -> None:
        """Remove what earlier rounds have left: the workers of the round have started."""
        with self._lock:
            removed = self._chosen_by(persisting.surplus)
        self._remove(removed)

    def check(self, request: FetchRequest) -> None:
        """Check that a persisted step is on this node, and send its directory; its workers read it there."""
        step = PersistedStep(request.run, request.step)
        with self._lock:
            self._in_use = step

        def on_end(reply: WriterAnswer) -> None:
            if reply.is_of_step:  # another step may have taken its place
                self._list()
            self._send(FetchResult(request.number, reply.directory, reply.error, reply.is_of_step))

        self._writer.send(CheckCommand(step), on_end)

    def list_again(self, request: ListRequest) -> None:
        """List what is whole, in a list that begins later than this."""
        with self._lock:
            self._wanted_list = max(self._wanted_list, request.number)
        self._list()

    def drain(self, request: DrainRequest) -> None:
        """Write these parts as fast as the disk allows, instead of what is written now; send the result."""
        self._writer.cancel_writes()
        number = request.number
        parts = [KeptPart(request.step, index) for index in request.indices]

        self._write(request.step, parts, lambda reply: self._send(DrainResult(number, error=reply.error)), rate=0)

    # --- the commit channel ------------------------------------------------------------------------------------------

    def news(self) -> PersistAnnouncement:
        """Return what the leader's keeper is to know."""
        with self._lock:
            return PersistAnnouncement(
                self._id, self._newest_of_run(), self._writing is not None, "directory" in self._troubles
            )

    def learn(self, point: SafePoint, members: tuple[Member, ...]) -> None:
        """Take the order of a leader, unless an earlier one is still written; look for a step that became whole."""
        with self._lock:
            is_news = point.persisted is not None and point.persisted not in self._found
            order = point.order
            is_taken = order is not None and order != self._order and self._writing is None and self._me in members
            if is_taken and order is not None:  # at once: another thread may learn the same
                self._order, self._writing = order, order.step
            removed = self._removed_after(point.found)
        self._remove(removed)
        if is_news:
            self._list()
        if is_taken and order is not None:
            self._take(order, members)

    def lead(
        self,
        point: SafePoint,
        news: Mapping[Member, PersistAnnouncement],
        members: tuple[Member, ...],
        holdings: Mapping[Member, Holdings],
    ) -> SafePoint:
        """Return the answer of the leader's keeper with its order, and the newest step that any member has found."""
        now_s = self._clock()
        with self._lock:
            trouble = persisting.find_trouble(news, holdings)
            self._set_trouble("order", trouble and f"keep.persistTo {self._shared}: {trouble}")
            if now_s >= self._schedule.due_s:
                self._number += 1
                number = int(now_s * 1000) + self._number
                order = persisting.next_order(news, point.committed, members, holdings, trouble=trouble, number=number)
                if order is not None:
                    self._led = order
                    self._schedule.note_order(now_s)
            newest = [each.newest for each in news.values() if each.newest is not None]
            order = self._led
        self._notify()
        persisted = max(newest, key=lambda each: each.step, default=None)
        return replace(point, order=order, persisted=persisted, found=persisting.found_by_all(news, members))

    def stop_leading(self) -> None:
        """Forget the orders and the troubles of a round that ends."""
        with self._lock:
            self._led = None
            self._set_trouble("order", "")

    def pause_s(self) -> float | None:
        """Return the seconds until an order may be due; None if that was noticed already."""
        with self._lock:
            due_s = self._schedule.due_s
            return None if due_s == self._seen_due_s else max(0.0, due_s - self._clock())

    def take_due(self) -> bool:
        """Return True once for each time at which an order is due."""
        with self._lock:
            due_s = self._schedule.due_s
            if self._clock() < due_s or due_s == self._seen_due_s:
                return False
            self._seen_due_s = due_s
            return True

    # --- writing -----------------------------------------------------------------------------------------------------

    def _take(self, order: PersistOrder, members: tuple[Member, ...]) -> None:
        assert self._me is not None
        own = self._steps.own_parts(order.step)
        indices = persisting.parts_to_write(order.sources, order.step, members, self._me, own)
        parts = [KeptPart(order.step, index) for index in sorted(indices)]
        if parts:
            self._write(order.step, parts, rate=self._rate)
        else:
            self._end_write(order.step)
        self._notify()

    def _write(
        self,
        step: KeptStep,
        parts: Iterable[KeptPart],
        on_end: Callable[[WriterAnswer], None] = lambda _: None,
        *,
        rate: int,
    ) -> None:
        """Pin these parts and let them be written; `on_end` gets the end, or why that cannot begin."""
        pinned: list[PartFiles] = []

        def end(reply: WriterAnswer) -> None:
            self._steps.volume.pins.remove(Path(each.path) for each in pinned)
            self._on_written(step, reply)
            on_end(reply)

        try:
            pinned.extend(map(self._pin, parts))  # after an error it has those before
            command = WriteCommand(PersistedStep(self._steps.volume.run, step), tuple(pinned), rate)
        except (VolumeError, RecordError) as error:
            end(WriterAnswer(0, error=str(error)))
            return
        with self._lock:
            self._writing = step
        self._writer.send(command, end)

    def _pin(self, part: KeptPart) -> PartFiles:
        volume = self._steps.volume
        held = volume.open_part(part.step, part.index)
        files = tuple(SourceFile(file.name, file.size, file.crc) for file in held.manifest.files)
        return PartFiles(part.index, str(volume.pins.add(held)), files)

    def _end_write(self, step: KeptStep) -> None:
        with self._lock:
            if self._writing == step:
                self._writing = None

    def _on_written(self, step: KeptStep, reply: WriterAnswer) -> None:
        self._end_write(step)
        with self._lock:
            self._failed = step if reply.error else None
            self._failures += bool(reply.error)
            is_new = bool(reply.error) and "directory" not in self._troubles  # else that is the cause
            self._set_trouble("write", f"step {step.number} was not persisted: {reply.error}" if is_new else "")
        self._accept(reply)
        self._notify()

    # --- what is whole -----------------------------------------------------------------------------------------------

    def _list(self) -> None:
        """List what is whole, or again after the list that is awaited: one list and one timer at most."""
        with self._lock:
            self._lists_again = self._is_listing
            if self._is_listing:
                return
            self._is_listing, self._ordered_list = True, self._wanted_list
        self._writer.send(ListCommand(), self._on_listed)

    def _end_list(self) -> None:
        with self._lock:
            self._is_listing = False

    def _list_after_pause(self) -> None:
        self._end_list()
        self._list()

    def _on_listed(self, reply: WriterAnswer) -> None:
        with self._lock:
            if not reply.error:
                reply = replace(reply, error=persisting.missing_step(reply.steps or (), self._wanted, self._shared))
                self._wanted = self._wanted if reply.error else None
            if not reply.error:
                self._list_number = self._ordered_list
            self._set_trouble("directory", reply.error)
        self._accept(reply)
        self._notify(is_listed=not reply.error)
        if reply.error:
            self._writer.call_later(_LIST_AGAIN_S, self._list_after_pause)
        else:
            self._end_list()
            if self._lists_again:
                self._list()

    def _accept(self, reply: WriterAnswer) -> None:
        if reply.steps is None:
            return
        with self._lock:
            before = self._newest_of_run()
            self._id = reply.id
            self._found = {PersistedStep.parse(text): at for text, at in reply.steps.items()}
            if (newest := self._newest_of_run()) is None:
                return
            if self._failed is not None and newest.step >= self._failed:  # another node has written it, or a newer one
                self._set_trouble("write", "")
            if newest == before:
                return
            self._schedule.note_whole(self._clock())

    def _removed_after(self, found: PersistedStep | None) -> list[PersistedStep]:
        """Return the steps to remove once for the newest step, now that all members have found this one."""
        newest = self._newest_of_run()
        if found is None or found != newest or newest == self._removed_for or not self._steps.is_running:
            return []
        self._removed_for = newest
        return self._chosen_by(persisting.superfluous)

    def _chosen_by(self, rule: Callable[..., list[PersistedStep]]) -> list[PersistedStep]:
        in_use = [] if self._in_use is None else [self._in_use]
        line = self._steps.history.followed_by(self._older)
        return rule(self._found, line, self._steps.volume.run, keep=self._keep, in_use=in_use)

    def _remove(self, steps: Iterable[PersistedStep]) -> None:
        if names := tuple(map(str, steps)):
            with self._lock:
                kept = tuple(text for text in map(str, self._found) if text not in names)
            self._writer.send(RemoveCommand(names, kept))

    def _newest_of_run(self) -> PersistedStep | None:
        run, history = self._steps.volume.run, self._steps.history
        own = [each for each in self._found if each.run == run and history.is_alive(each.step)]
        return max(own, key=lambda each: each.step, default=None)

    # --- reports -----------------------------------------------------------------------------------------------------

    def _set_trouble(self, what: str, why: str) -> None:
        if why and why != self._troubles.get(what):
            self._report(why if what == "write" else f"steps are not persisted at present: {why}")
        if why:
            self._troubles[what] = why
        else:
            self._troubles.pop(what, None)

    def _notify(self, *, is_listed: bool = False) -> None:
        with self._lock:
            newest = sorted(self._found, key=lambda each: self._found[each])[-_MOST_STEPS:]
            update = PersistUpdate(
                is_listed=is_listed or (self._update is not None and self._update.is_listed),
                list_number=self._list_number,
                steps={str(each): self._found[each] for each in newest},
                error=next((self._troubles[what] for what in _CAUSES if what in self._troubles), ""),
                failures=self._failures,
            )
            if update == self._update:
                return
            self._update = update
        self._send(update)
