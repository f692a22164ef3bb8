"""The content of the page: the last snapshot of each job, and the rounds that this process saw.

The reconciler writes into it at each turn of a job (a reference or two: nothing is made for nobody); streams of the
page read it and wait for more. One event loop, so between two awaits everybody sees one state.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from elasticjob_api.records import Failure
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.observer import Onlooker
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import Recovered
from elasticjob_operator.model.rendezvous_view import View
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.ui.round_history import History

FAILURES_KEPT = 20
_GONE_KEPT = 1000

Place = tuple[str, str]
"""Namespace and name: of two jobs that had it one after the other the younger is shown."""


@dataclass(slots=True, kw_only=True)
class Shown:
    """One job; `version` is the board's at its last change."""

    key: JobKey
    obj: Object
    status: JobStatus
    view: View
    version: int
    history: History = field(default_factory=History)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    """The records of the last round that had any, the root cause first: etcd forgets them two rounds later."""


class Board(Onlooker):
    """All jobs of one operator."""

    def __init__(self) -> None:
        self.version = 0
        """It grows with every change."""
        self.jobs: dict[Place, Shown] = {}
        self._gone: deque[tuple[int, Place]] = deque(maxlen=_GONE_KEPT)
        self._waiters: set[asyncio.Future[None]] = set()

    def note(self, key: JobKey, obj: Object, status: JobStatus, view: View, now_s: float) -> None:
        """It is as new as this; so is the round that it is in."""
        place = key.namespace, key.name
        shown = self.jobs.get(place)
        if shown is None or shown.key != key:
            shown = self.jobs[place] = Shown(key=key, obj=obj, status=status, view=view, version=0)
        shown.obj, shown.status, shown.view = obj, status, view
        if view.world is not None:
            since_s = from_rfc3339(status.last_rendezvous_time)
            shown.history.note(view.world, now_s, active_since_s=since_s)
        if view.failures:
            shown.failures = _kept(view)
        shown.version = self._changed()

    def measured(self, key: JobKey, recovered: Recovered) -> None:
        """The round's steps."""
        if (shown := self.jobs.get((key.namespace, key.name))) is not None and shown.key == key:
            shown.history.measured(recovered.round, recovered.steps)

    def forget(self, key: JobKey) -> None:
        """Its place is free."""
        place = key.namespace, key.name
        if (shown := self.jobs.get(place)) is not None and shown.key == key:
            del self.jobs[place]
            self._gone.append((self._changed(), place))

    def since(self, version: int) -> tuple[list[Shown], list[Place]] | None:
        """What has changed and what has gone after `version`; None if that is too long ago to say: read all of it."""
        if self._gone and len(self._gone) == _GONE_KEPT and self._gone[0][0] > version:
            return None
        gone = [place for at, place in self._gone if at > version and place not in self.jobs]
        return [shown for shown in self.jobs.values() if shown.version > version], gone

    async def changed(self, version: int) -> None:
        """Return when there is anything after `version`."""
        while self.version <= version:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def _changed(self) -> int:
        self.version += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        return self.version


def _kept(view: View) -> dict[str, Failure]:
    """Of the newest round with failures, the root cause first."""
    root = view.world.root if view.world is not None else ""
    newest = max(int(name.partition("/")[0]) for name in view.failures)
    names = [name for name in sorted(view.failures) if name == root or name.startswith(f"{newest}/")]
    names.sort(key=lambda name: name != root)
    return {name: view.failures[name] for name in names[:FAILURES_KEPT]}
