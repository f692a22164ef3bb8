"""One candidate of the election: it holds the Lease and leads, or is a standby; see `policy.leader_election`.

Unlike with client-go, a candidate that has lost the Lease does not end its process. It becomes a standby, keeps its
caches, and may lead again.
"""

import argparse
import asyncio
import contextlib
import logging
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from elasticjob_operator.cluster.lease_lock import LeaseLock
from elasticjob_operator.cluster.log_limit import LogRateLimiter
from elasticjob_operator.errors import AlreadyExists, ClusterError, Conflict, OperatorError
from elasticjob_operator.model.cluster_interface import SecretStore
from elasticjob_operator.policy import leader_election as policy
from elasticjob_operator.policy.leader_election import Candidate, ElectionStep, ElectionTiming

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

log = logging.getLogger(__name__)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the election of a leader."""
    parser.add_argument(
        "--leader-elect", action="store_true", help="act only while holding a Lease: for several replicas [no election]"
    )
    parser.add_argument("--lease-name", default="elasticjob-operator", metavar="NAME", help="name of the Lease")
    parser.add_argument("--lease-namespace", metavar="NAME", help="namespace of the Lease [the operator's own]")


def elector_from(options: argparse.Namespace, cluster: SecretStore) -> "LeaderElector | None":
    """Return the candidate that the options describe, or None without `--leader-elect`.

    Raises:
        OperatorError: the Lease's namespace is not given, and this process does not run in a pod.
    """
    if not options.leader_elect:
        return None
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    namespace = options.lease_namespace or _own_namespace()
    return LeaderElector(
        LeaseLock(cluster, namespace=namespace, name=options.lease_name, identity=identity, clock=time.time)
    )


def _own_namespace() -> str:
    try:
        return _OWN_NAMESPACE.read_text().strip()
    except OSError as error:
        raise OperatorError(
            f"--leader-elect: the namespace of the Lease is unknown outside a pod ({error}); set --lease-namespace"
        ) from error


class LeaderElector:
    """One candidate; `clock` is monotonic, and that of the event loop."""

    def __init__(
        self, lock: LeaseLock, *, timing: ElectionTiming | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = lock
        self._clock = clock
        self._timing = timing or ElectionTiming()
        self._candidate = Candidate(identity=lock.identity, timing=self._timing)
        self._trouble = ""
        self._log_limit = LogRateLimiter(clock)

    @property
    def is_leader(self) -> bool:
        """Whether this candidate may act now; false as soon as its leadership has ended."""
        return policy.is_leader(self._candidate, self._clock())

    @property
    def holder(self) -> str:
        """Identity of the candidate that held the Lease when it was last read; empty if none did or it was not read."""
        lease = self._candidate.lease
        return lease.holder if lease is not None else ""

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Campaign until cancelled: run `lead()` while this candidate leads, and cancel it when its leadership ends.

        Raises the errors of `lead()`. The Lease is released at the end, when `lead()` has ended.
        """
        try:
            while True:
                await self._acquire()
                await self._lead(lead)
        finally:
            await self._release()

    async def _acquire(self) -> None:
        logged_holder = ""
        while True:
            await self._attempt_once()
            if self.is_leader:
                return
            if (holder := self.holder) and holder not in {logged_holder, self._lock.identity}:
                log.info("standby: %s holds the %s", holder, self._lock)
                logged_holder = holder
            await asyncio.sleep(policy.retry_in_s(self._candidate, self._clock()))

    async def _lead(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        log.info("leading: %s holds the %s", self._lock.identity, self._lock)
        work = asyncio.create_task(lead(), name="leader's work")
        renewal = asyncio.create_task(self._renew(), name="renewal of the lease")
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, renewal):
                task.cancel()
            await asyncio.wait({work, renewal})
        for task in (work, renewal):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        log.warning("no longer the leader: the %s was not renewed in time; now a standby", self._lock)

    async def _renew(self) -> None:
        """Renew the Lease until a renewal fails for too long or comes too late."""
        while True:
            await asyncio.sleep(policy.retry_in_s(self._candidate, self._clock()))
            before = self._candidate
            if self.is_leader:
                await self._attempt_once()
            if not self.is_leader or not policy.is_uninterrupted(before, self._candidate):
                return

    async def _attempt_once(self) -> None:
        now_s = self._clock()
        limit_s = self._timing.renew_deadline_s
        if policy.is_leader(self._candidate, now_s):
            limit_s = min(limit_s / 2, policy.leads_until_s(self._candidate) - now_s)
        try:
            async with asyncio.timeout(limit_s):
                await self._attempt()
        except (Conflict, AlreadyExists):
            self._candidate = policy.after_no_answer(self._candidate)  # another candidate was faster
        except (ClusterError, TimeoutError) as error:
            self._candidate = policy.after_no_answer(self._candidate)
            self._log_trouble(str(error) or f"no answer within {limit_s:.1f} s")
        else:
            self._log_trouble("")

    async def _attempt(self) -> None:
        self._candidate = policy.start_attempt(self._candidate, self._clock())
        if policy.next_step(self._candidate, self._clock()) is ElectionStep.READ:
            lease = await self._lock.read()
            self._candidate = policy.with_observed_lease(self._candidate, lease, self._clock())
        if policy.next_step(self._candidate, self._clock()) is ElectionStep.WAIT:
            return
        sent_s = self._clock()
        lease = await self._lock.acquire(self._timing.lease_duration_s)
        self._candidate = policy.with_written_lease(self._candidate, lease, sent_s=sent_s, now_s=self._clock())

    async def _release(self) -> None:
        if self._candidate.lease is None or self.holder != self._lock.identity:
            return
        with contextlib.suppress(ClusterError, TimeoutError):
            # Later the Lease has expired, and another candidate has it without a release.
            async with asyncio.timeout(self._timing.lease_duration_s):
                lease = await self._lock.release()
                self._candidate = policy.with_written_lease(
                    self._candidate, lease, sent_s=policy.NEVER, now_s=self._clock()
                )
                log.info("released the %s", self._lock)

    def _log_trouble(self, trouble: str) -> None:
        # While the API server is unavailable, a connection fails with changing errors: each is logged once a minute.
        if trouble and trouble != self._trouble and self._log_limit.allow(trouble):
            log.warning("cannot read or renew the %s, trying again: %s", self._lock, trouble)
        self._trouble = trouble
