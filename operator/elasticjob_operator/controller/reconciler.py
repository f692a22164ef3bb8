"""One job's turn: observe, plan, act, write the status. It is level-triggered and may be repeated.

Any await here may be the last thing that this process does. So everything that must survive is in etcd or in the API
server before anything depends on it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import ElasticJob
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd
from elasticjob_operator.controller.agent_counts import AgentCounts
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.deletion_plan import expulsion, plan_deletion
from elasticjob_operator.controller.executor import Actor, Turn
from elasticjob_operator.controller.ids import Ids
from elasticjob_operator.controller.job_parser import read_status
from elasticjob_operator.controller.observer import Onlooker
from elasticjob_operator.controller.plan import plan
from elasticjob_operator.controller.status_writer import Speaker
from elasticjob_operator.errors import ClusterError, Conflict, Forbidden, RenderError
from elasticjob_operator.informers.caches import JobCache, PodCache
from elasticjob_operator.informers.rendezvous_informer import Rendezvous
from elasticjob_operator.maintenance.etcd_health import EtcdHealth
from elasticjob_operator.metrics.job_health import standing
from elasticjob_operator.metrics.recorder import Meter
from elasticjob_operator.model import objects
from elasticjob_operator.model.actions import Action, Disown
from elasticjob_operator.model.cluster_interface import Cluster, Object, Resource
from elasticjob_operator.model.finished_job import has_ended
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import SHOWN_WITHIN_S, Ledger
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.rendezvous_view import View
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.etcd.quota import allowance
from elasticjob_operator.policy.lifecycle.installation import (
    FIELD,
    LeftAloneReason,
    Ownership,
    is_foreign,
    is_managed,
    is_orphaning,
    owned_by_another,
    ownership,
)
from elasticjob_operator.policy.lifecycle.pod_revisions import life_revision
from elasticjob_operator.policy.lifecycle.resync import LATER_S, ApplyLimiter, is_doubtful, is_due, upkeep_in_s
from elasticjob_operator.policy.slots.creation_backoff import while_pods_are_missing
from elasticjob_operator.policy.slots.joined import joined_before
from elasticjob_operator.policy.slots.lost_pods import lost_pods
from elasticjob_operator.policy.slots.node_avoidance import note_losses
from elasticjob_operator.policy.slots.replacement_backoff import courses_of
from elasticjob_operator.policy.slots.unreachable_agents import doubt_ended, silences, unreachable_pods
from elasticjob_operator.policy.status.build import is_finished, rejected_status
from elasticjob_operator.policy.status.rounds import noted
from elasticjob_operator.settings import Settings
from elasticjob_operator.tls.interface import Credentials

REST_OF_A_NODE_S = 0.0004
"""Of each node beyond `SMALL`. A turn costs some 0.06 ms a node; the nodes of a round report: they share turns."""
SMALL = 100
"""Nodes of a job whose turns need no rest: the next one is as soon as something changes."""
MOST_REST_S = 2.0

log = logging.getLogger(__name__)


def rest_s(nodes: int) -> float:
    """Return the least time between two turns of a job of so many nodes, unless its own last write is awaited."""
    return min(MOST_REST_S, REST_OF_A_NODE_S * max(0, nodes - SMALL))


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
        clocks: Clocks,
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
        self._clocks = clocks
        self._ids = ids
        self._cluster = cluster
        self._actor = Actor(cluster=cluster, etcd=etcd, clock=clocks.monotonic, credentials=credentials)
        jobs = sources.jobs
        self._speaker = Speaker(
            cluster=cluster,
            settings=settings,
            clocks=clocks,
            meter=self._meter,
            jobs=lambda: len(jobs),
            crowded=crowded,
        )
        self._ledgers: dict[JobKey, Ledger] = {}
        self._agents = AgentCounts()
        self._left_alone: dict[JobKey, LeftAloneReason] = {}
        self._apply_limiter = ApplyLimiter()

    def begin_anew(self) -> None:
        """No turn is under way, and another process may act or have acted: forget what an earlier leadership knew."""
        for key in self._ledgers:
            self._meter.stands(key, None)
            self._onlooker.forget(key)
        self._ledgers.clear()
        self._left_alone.clear()
        self._agents = AgentCounts()
        self._speaker.begin_anew()

    def left_alone(self) -> Counter[tuple[str, str]]:
        """Count the jobs for which nothing is done, by namespace and reason."""
        return Counter((key.namespace, reason.value) for key, reason in self._left_alone.items())

    def pod_deleted(self, key: JobKey, name: str, uid: str) -> None:
        """Note that the watch reported a pod as gone: the only proof that needs no request."""
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

    def rest_s(self, key: JobKey) -> float:
        """Return how long the job's next turn can wait: longer for a large job, not at all for our own last write."""
        turn = self._ledgers.get(key)
        store, revision = turn.written if turn else (0, 0)
        if store == self._sources.rendezvous.store and self._sources.rendezvous.revision < revision:
            return 0.0
        return rest_s(len(self._sources.pods.of(key)))

    async def reconcile(self, key: JobKey) -> float | None:
        """One turn; seconds until the next, if time alone calls for one. Raises what the queue should retry."""
        obj = self._sources.jobs.get(key)
        self._left_alone.pop(key, None)
        if obj is not None and await self._is_left_alone(key, obj):
            return None
        if obj is None or objects.is_terminating(obj):
            return await self._end(key)
        if (found := await self._taken_up(key, obj)) is None:
            return SHOWN_WITHIN_S  # it has changed: what it became will wake us
        obj, ledger = found, self._turn(key).ledger
        try:
            job = ledger.acceptor.accept(obj, ledger.status)
        except (InvalidSpec, RenderError) as error:
            return await self._reject(key, obj, str(error))
        return await self._pursue(key, obj, job)

    async def _is_left_alone(self, key: JobKey, obj: Object) -> bool:
        """Another controller or another installation acts on it, or its pods are to outlive it."""
        if not is_managed(obj, self._settings.manager_name):
            self._left_alone[key] = LeftAloneReason.MANAGED_BY_ANOTHER
            return True
        if is_orphaning(obj):
            return True
        if self._ownership(key, obj) is not Ownership.ANOTHERS:
            return False
        self._left_alone[key] = LeftAloneReason.OWNED_BY_ANOTHER
        event = owned_by_another(obj, self._settings.installation)
        if self._turn(key).ledger.left_alone != event:
            self._meter.stands(key, None)
            self._onlooker.forget(key)
            self._agents.forget(key)
            ledger = self._ledgers[key] = Ledger(left_alone=event)  # what was known while it was ours holds no more
            await self._speaker.tell(key, obj, ledger, (event,))
        return True

    def _ownership(self, key: JobKey, obj: Object) -> Ownership:
        pods, prefix = self._sources.pods.of(key).values(), self._turn(key).keys.prefix
        claimed = bool(self._turn(key).ledger.installation)
        ours = self._settings.installation
        return ownership(obj, pods, installation=ours, prefix=prefix, claimed=claimed)

    async def _taken_up(self, key: JobKey, obj: Object) -> Object | None:
        """The job, claimed, and as much of it as is wanted. None: it has changed, or is gone."""
        if objects.is_too_large(obj):  # not claimed: each write of such a job costs the API server seconds
            return obj
        claimed = await self._claim(key, obj)
        said = self._turn(key).ledger.status
        if claimed is None or said is None or is_finished(said) or not has_ended(claimed):
            return claimed
        # Little is kept of a job whose status shows that it has ended. We have not said so: it may have to go on.
        found = await self._cluster.get(Resource.JOB, key.namespace, key.name)
        return found if found is not None and objects.uid_of(found) == key.uid else None

    async def _claim(self, key: JobKey, obj: Object) -> Object | None:
        """The job, which names this installation before anything is done for it. None: it has changed, look again."""
        ledger, version = self._turn(key).ledger, objects.version_of(obj)
        ours = self._settings.installation
        if ledger.installation == ours:
            return obj
        if self._ownership(key, obj) is Ownership.UNCLAIMED:
            try:
                version = await self._cluster.claim(Resource.JOB, key.namespace, key.name, {FIELD: ours}, version)
            except Conflict:
                return None
            except Forbidden as error:
                log.warning("%s: it is not marked as a job of installation %s: %s", key, ours, error)
        ledger.left_alone, ledger.installation = None, ours
        return objects.of_version(obj, version)

    async def _pursue(self, key: JobKey, obj: Object, job: ElasticJob) -> float | None:
        turn = self._turn(key)
        self._sources.rendezvous.allow(key, allowance(job.spec, nodes=len(self._sources.pods.of(key))))
        seen = self._observe(key, job, turn.ledger)
        if not seen.etcd_trouble and self._is_behind(turn, seen.view):
            return None  # our own last write is not in the view yet: its arrival wakes us
        self._remember(key, seen)
        seen = replace(seen)  # the ledger has changed: what was computed from it does not hold any more
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
        again = [*turn.again_in_s, status_in_s, self._rest_s(seen, wanted.requeue_in_s)]
        return min((s for s in again if s is not None), default=None)

    def _own_pods(self, turn: Turn) -> dict[str, Pod]:
        """Those that may be deleted with the job: none of another installation."""
        ours, pods = self._settings.installation, self._sources.pods.of(turn.key)
        if turn.ledger.left_alone is not None:
            return {}
        prefix = turn.keys.prefix
        return {name: pod for name, pod in pods.items() if not is_foreign(pod, installation=ours, prefix=prefix)}

    def _rest_s(self, seen: Observed, delay_s: float | None) -> float | None:
        """What is left of a delay that began when the job was looked at."""
        return None if delay_s is None else max(0.0, seen.monotonic_s + delay_s - self._clocks.monotonic())

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
            now_s=self._clocks.wall(),
            monotonic_s=self._clocks.monotonic(),
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
        jobs, at_s = len(self._sources.jobs), seen.monotonic_s
        if is_doubtful(ledger, at_s):
            ledger.applied.clear()
            ledger.upkeep_from_s = 0.0
        ledger.upkeep_from_s = ledger.upkeep_from_s or at_s + upkeep_in_s(key.uid, jobs=jobs)
        if is_due(ledger, seen.pods, at_s) and self._apply_limiter.is_full(key.namespace):
            ledger.upkeep_from_s = at_s + LATER_S + upkeep_in_s(key.uid, jobs=jobs)
        if ledger.history is None:
            ledger.agent_seen |= joined_before(seen.history, seen.pods.values())
        if not seen.etcd_trouble and not seen.view.unclear:
            ledger.memory.note(seen.view, seen.pods)
            ledger.history = noted(seen.history, seen.view, seen.now_s)
            owners, said = seen.owners(), seen.status.reason
            ledger.courses = courses_of(ledger.courses, owners, at_s, now_s=seen.now_s, said=said)
            ledger.failed_creation = while_pods_are_missing(ledger.failed_creation, owners)
            ledger.revision = life_revision(seen)
            self._measure(key, ledger, seen)
        with_agent = set(seen.view.agents())
        running = {pod.uid for pod in seen.pods.values() if pod.running}
        ledger.note_shown(seen.pods, at_s)
        ledger.note_agents(running=running, with_agent=with_agent, monotonic_s=at_s)
        self._doubt(key, seen, agents=len(running))
        names = set(seen.view.owners().values()) | {node.record.pod for node in nodes}
        lost = lost_pods(seen.job.spec, ledger, at_s)
        note_losses(ledger, seen.owners().values(), lost=lost.uids, monotonic_s=at_s)
        here = {pod.uid for pod in seen.pods.values()}
        ledger.node_looked_s = {uid: at_s for uid, at_s in ledger.node_looked_s.items() if uid in here}
        ledger.forget(names=names, uids={node.record.pod_uid for node in nodes})

    def _doubt(self, key: JobKey, seen: Observed, *, agents: int) -> None:
        """Which silent pods are left alone, by what is known of all jobs."""
        ledger, lease_s = seen.ledger, seen.job.spec.rendezvous.keep_alive_s
        silent = silences(ledger.agentless_since_s, seen.pods)
        self._agents.note(key, agents, silent.values())
        now = unreachable_pods(silent, agents=agents, lease_s=lease_s, installation=self._agents.share_silent)
        ledger.note_unreachable(now, anew=doubt_ended(ledger.unreachable, now, silent), monotonic_s=seen.monotonic_s)

    def _measure(self, key: JobKey, ledger: Ledger, seen: Observed) -> None:
        active, recovered = ledger.pace.note(seen.view, in_status=seen.status.rendezvous_round)
        if active is not None:
            self._meter.round_active(key, active.cause)
        if recovered is not None:
            self._meter.recovered(recovered)
            self._onlooker.measured(key, recovered)
        self._meter.stands(key, standing(seen))

    async def _act(self, turn: Turn, actions: tuple[Action, ...]) -> Exception | None:
        """Do it; an error is kept until the status has been said, which must not depend on it."""
        try:
            with self._apply_limiter.of(turn.key.namespace, actions):
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
        self._agents.forget(key)  # what it had when it was last accepted says nothing of now
        ledger, generation = self._turn(key).ledger, objects.metadata(obj).get("generation", 1)
        before = ledger.status or read_status(obj)
        status = rejected_status(before, message, now=to_rfc3339(self._clocks.wall()), generation=generation)
        self._onlooker.note(key, obj, status, View(), self._clocks.wall())
        delay_s = await self._speaker.say(key, obj, ledger, status)
        # Its pods run on, and have its certificate.
        error = await self._act(self._turn(key), expulsion(self._sources.rendezvous.view(key), self._settings))
        if error is not None:
            raise error
        return delay_s

    async def _end(self, key: JobKey) -> float | None:
        self._meter.stands(key, None)
        self._onlooker.forget(key)
        self._agents.forget(key)
        turn, view = self._turn(key), self._sources.rendezvous.view(key)
        pods = self._own_pods(turn)
        if view.empty and not pods:
            # A job may go between its user and its first key; nothing else tells then that it has one.
            if turn.ledger.has_user and not await self._actor.job_is_there(key):
                await self._actor.perform(turn, (Disown(),))
            del self._ledgers[key]
            return None
        if self._is_behind(turn, view) or await self._actor.job_is_there(key):
            return None
        claimed, now_s = bool(turn.ledger.installation), self._clocks.wall()
        wanted = plan_deletion(view, pods, self._settings, now_s=now_s, claimed=claimed)
        error = await self._act(turn, wanted.actions)
        if error is not None:
            raise error
        return min((s for s in [*turn.again_in_s, wanted.requeue_in_s] if s is not None), default=None)
