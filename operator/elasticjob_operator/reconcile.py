"""One job's turn: observe, plan, act, say. Level-triggered: it never knows what woke it, and may be repeated.

Whatever is awaited here may be the last thing that this process does; so everything that must survive is in
etcd or in the API server before anything depends on it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import ElasticJob
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.protocol import Etcd
from elasticjob_operator.acceptance import is_ours, read_status
from elasticjob_operator.acting import Actor, Turn
from elasticjob_operator.actions import Action
from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.caches import JobCache, PodCache
from elasticjob_operator.cluster.health import EtcdHealth
from elasticjob_operator.cluster.protocol import Cluster, Object
from elasticjob_operator.cluster.rendezvous import Rendezvous
from elasticjob_operator.credentials.protocol import Credentials
from elasticjob_operator.deletion import plan_deletion
from elasticjob_operator.errors import ClusterError, RenderError
from elasticjob_operator.health import standing
from elasticjob_operator.ids import Ids
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.ledger import SHOWN_WITHIN_S, Ledger
from elasticjob_operator.meter import Meter
from elasticjob_operator.observed import Observed
from elasticjob_operator.onlooker import Onlooker
from elasticjob_operator.plan import plan
from elasticjob_operator.policy.avoid import note_losses
from elasticjob_operator.policy.churn import courses_of
from elasticjob_operator.policy.footprint import allowance
from elasticjob_operator.policy.history import noted
from elasticjob_operator.policy.lost import lost_pods
from elasticjob_operator.policy.status import rejected_status
from elasticjob_operator.policy.upkeep import upkeep_in_s
from elasticjob_operator.saying import Speaker
from elasticjob_operator.settings import Settings
from elasticjob_operator.timestamps import to_rfc3339
from elasticjob_operator.view import View

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where a reconciler looks; all of them are as old as their watches."""

    jobs: JobCache
    pods: PodCache
    rendezvous: Rendezvous
    health: EtcdHealth


class Reconciler:
    """Reconciles any job; keeps a ledger for each."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        etcd: Etcd,
        settings: Settings,
        sources: Sources,
        clock: Callable[[], float],
        ids: Ids,
        meter: Meter | None = None,
        onlooker: Onlooker | None = None,
        credentials: Credentials | None = None,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._meter = meter or Meter()
        self._onlooker = onlooker or Onlooker()
        self._settings = settings
        self._sources = sources
        self._clock = clock
        self._ids = ids
        self._actor = Actor(cluster=cluster, etcd=etcd, clock=clock, credentials=credentials)
        jobs = sources.jobs
        self._speaker = Speaker(
            cluster=cluster,
            settings=settings,
            clock=clock,
            meter=self._meter,
            jobs=lambda: len(jobs),
            crowded=crowded,
        )
        self._ledgers: dict[JobKey, Ledger] = {}

    def pod_deleted(self, key: JobKey, name: str, uid: str) -> None:
        """The watch told that a pod is gone: the only proof of it that needs no question."""
        if (ledger := self._ledgers.get(key)) is not None:
            ledger.missing(name, uid)

    def is_said(self, key: JobKey, status: object) -> bool:
        """It is the status that was written last, for progress alone: there is nothing more to say or do about it."""
        ledger = self._ledgers.get(key)
        return ledger is not None and ledger.said_softly and status == ledger.status_as_written

    def written(self, key: JobKey) -> Mapping[str, Any]:
        """The job's status as this process has written it last; empty if it has not."""
        ledger = self._ledgers.get(key)
        return {} if ledger is None else ledger.status_as_written

    async def reconcile(self, key: JobKey) -> float | None:
        """One turn; seconds until the next, if time alone calls for one. Raises what the queue should retry."""
        obj = self._sources.jobs.get(key)
        if obj is None or objects.is_terminating(obj):
            return await self._end(key)
        if not is_ours(obj):
            return None
        ledger = self._turn(key).ledger
        try:
            job = ledger.acceptor.accept(obj, ledger.status)
        except (InvalidSpec, RenderError) as error:
            return await self._reject(key, obj, str(error))
        return await self._pursue(key, obj, job)

    async def _pursue(self, key: JobKey, obj: Object, job: ElasticJob) -> float | None:
        turn = self._turn(key)
        self._sources.rendezvous.allow(key, allowance(job.spec))
        seen = self._observe(key, job, turn.ledger)
        if not seen.etcd_trouble and self._is_behind(turn, seen.view):
            return None  # our own last write is not in the view yet: its arrival wakes us
        self._remember(key, seen)
        wanted = plan(seen, self._ids)
        self._onlooker.note(key, obj, wanted.status or seen.status, seen.view, seen.now_s)
        written = turn.ledger.written
        error = await self._act(turn, wanted.actions)
        await self._speaker.tell(key, obj, turn.ledger, turn.news)
        if turn.ledger.written != written:
            return SHOWN_WITHIN_S  # the map has changed: its arrival wakes us at once, and then there is more to say
        status_in_s = await self._speaker.say(key, obj, turn.ledger, wanted.status) if wanted.status else None
        if error is not None:
            raise error
        at_s = wanted.requeue_at_s
        again = [*turn.again_in_s, status_in_s, None if at_s is None else max(0.0, at_s - self._clock())]
        return min((s for s in again if s is not None), default=None)

    def _turn(self, key: JobKey) -> Turn:
        ledger = self._ledgers.setdefault(key, Ledger())
        return Turn(key, key.keys(self._settings.cluster_id), ledger, self._sources.rendezvous.store)

    def _observe(self, key: JobKey, job: ElasticJob, ledger: Ledger) -> Observed:
        return Observed(
            job=job,
            pods=self._sources.pods.of(key),
            view=self._sources.rendezvous.view(key),
            ledger=ledger,
            settings=self._settings,
            now_s=self._clock(),
            etcd_trouble=self._etcd_trouble(),
            store=self._sources.rendezvous.store,
        )

    def _etcd_trouble(self) -> str:
        if self._sources.health.trouble or self._sources.rendezvous.listed:
            return self._sources.health.trouble
        return "etcd has not answered yet"

    def _is_behind(self, turn: Turn, view: View) -> bool:
        store, revision = turn.ledger.written
        return store == turn.store and view.revision < revision

    def _remember(self, key: JobKey, seen: Observed) -> None:
        """Bring the ledger up to date; nothing of this job is in flight here."""
        ledger, nodes = seen.ledger, seen.view.nodes.values()
        ledger.upkeep_from_s = ledger.upkeep_from_s or seen.now_s + upkeep_in_s(key.uid, jobs=len(self._sources.jobs))
        if not seen.etcd_trouble and not seen.view.unclear:
            ledger.memory.note(seen.view, seen.pods)
            ledger.history = noted(seen.history, seen.view, seen.now_s)
            ledger.courses = courses_of(ledger.courses, seen.owners(), seen.now_s, said=seen.status.reason)
            self._measure(key, ledger, seen)
        with_agent = set(seen.view.agents())
        running = {pod.uid for pod in seen.pods.values() if pod.live and pod.phase == "Running"}
        ledger.note_agents(running=running, with_agent=with_agent, now_s=seen.now_s)
        names = set(seen.view.owners().values()) | {node.record.pod for node in nodes}
        lost = lost_pods(seen.job.spec, ledger, seen.now_s)
        note_losses(ledger, seen.owners().values(), lost=lost.uids, now_s=seen.now_s)
        here = {pod.uid for pod in seen.pods.values()}
        ledger.node_looked_s = {uid: at_s for uid, at_s in ledger.node_looked_s.items() if uid in here}
        ledger.forget(names=names, uids={node.record.pod_uid for node in nodes})

    def _measure(self, key: JobKey, ledger: Ledger, seen: Observed) -> None:
        active, recovered = ledger.pace.note(seen.view)
        if active is not None:
            self._meter.round_active(key, active.cause)
        if recovered is not None:
            self._meter.recovered(recovered)
            self._onlooker.measured(key, recovered)
        self._meter.stands(key, standing(seen))

    async def _act(self, turn: Turn, actions: tuple[Action, ...]) -> Exception | None:
        """Do it; an error is kept until the status has been said, which must not depend on it."""
        try:
            await self._actor.perform(turn, actions)
        except ClusterError as error:
            turn.ledger.trouble = str(error)
            return error
        except EtcdError as error:
            self._sources.health.suspect()
            return error
        turn.ledger.trouble = ""
        return None

    async def _reject(self, key: JobKey, obj: Object, message: str) -> float | None:
        ledger, generation = self._turn(key).ledger, objects.metadata(obj).get("generation", 1)
        before = ledger.status or read_status(obj)
        status = rejected_status(before, message, now=to_rfc3339(self._clock()), generation=generation)
        self._onlooker.note(key, obj, status, View(), self._clock())
        return await self._speaker.say(key, obj, ledger, status)

    async def _end(self, key: JobKey) -> float | None:
        self._meter.stands(key, None)
        self._onlooker.forget(key)
        turn, view, pods = self._turn(key), self._sources.rendezvous.view(key), self._sources.pods.of(key)
        if view.empty and not pods:
            del self._ledgers[key]
            return None
        if self._is_behind(turn, view) or await self._actor.job_is_there(key):
            return None
        error = await self._act(turn, plan_deletion(view, pods, self._settings).actions)
        if error is not None:
            raise error
        return None
