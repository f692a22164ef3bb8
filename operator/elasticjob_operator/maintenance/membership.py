"""Replacement of members of the installation's own etcd that have lost their data.

`policy.etcd.membership` decides. The operator needs an administrator's rights and a majority of the members. Without a
majority it can do nothing, and the members themselves follow `elasticjob_etcd.member_policy`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from elasticjob_etcd.errors import EtcdError, RequestRejected
from elasticjob_etcd.maintenance import MemberAdmin
from elasticjob_etcd.members import EtcdMember
from elasticjob_operator.maintenance.volumes import EtcdVolumeReplacer
from elasticjob_operator.policy.etcd.membership import AddLearner, Promote, RemoveMember, Step, Update, next_step
from elasticjob_operator.policy.etcd.volumes import only_silent

CHECK_S = 5.0
CHECK_SOON_S = 0.5

Connect = Callable[[], AbstractAsyncContextManager[MemberAdmin]]
IsEmpty = Callable[[str], bool]
"""Whether the member with this peer URL responds that it has no data; may block for seconds."""

log = logging.getLogger(__name__)


class EtcdMemberReplacer:
    """Replaces lost members; `pods` are peer URLs by name. Without `volumes` no volume is replaced."""

    def __init__(
        self,
        connect: Connect,
        pods: Mapping[str, str],
        is_empty: IsEmpty,
        *,
        volumes: EtcdVolumeReplacer | None = None,
        check_s: float = CHECK_S,
    ) -> None:
        self._connect = connect
        self._pods = pods
        self._is_empty = is_empty
        self._volumes = volumes
        self._check_s = check_s
        self._logged: set[str] = set()
        """Messages logged since the last check without a step; each is logged once."""

    async def run(self) -> None:
        """Check the members until cancelled."""
        if self._volumes is not None:
            self._volumes.forget()
        while True:
            pause_s = CHECK_SOON_S if await self._check() else self._check_s
            await asyncio.sleep(pause_s)

    async def _check(self) -> bool:
        """Execute the next step; return whether there was one."""
        try:
            async with self._connect() as membership:
                members = await membership.members()
                silent = await self._unresponsive(membership, members)
                empty = await self._empty(silent)  # after the list, as the policy requires
                step = next_step(members, self._pods, empty)
                if step is not None:
                    await self._execute(membership, step)
        except EtcdError as error:
            self._log_once(f"cannot check etcd's members, trying again: {error}")
            if self._volumes is not None:
                self._volumes.forget()
            return False
        if step is None:
            self._logged.clear()
        if self._volumes is not None:
            answering = self._pods.keys() - silent
            out = only_silent(members, self._pods, answering) if step is None and not empty else None
            await self._volumes.check(out)
        return step is not None

    async def _unresponsive(self, membership: MemberAdmin, members: Sequence[EtcdMember]) -> list[str]:
        """Return names of pods whose etcd does not respond; only these are asked on the peer port."""
        answering: set[str] = set()
        for member in members:
            with contextlib.suppress(EtcdError):
                await membership.status(member)
                answering |= set(member.peer_urls)
        return [name for name, url in self._pods.items() if url not in answering]

    async def _empty(self, names: Sequence[str]) -> frozenset[str]:
        asked = [asyncio.to_thread(self._is_empty, self._pods[name]) for name in names]
        answers = await asyncio.gather(*asked)
        return frozenset(name for name, is_empty in zip(names, answers, strict=True) if is_empty)

    async def _execute(self, membership: MemberAdmin, step: Step) -> None:
        match step:
            case RemoveMember(member):
                self._log_once(f"etcd's member {member.name} has lost its data: removing it")
                await membership.remove(member.id)
            case AddLearner(name, peer_url):
                self._log_once(f"adding {name} to etcd's members as a learner")
                await membership.add_learner(peer_url)
            case Update(member, peer_url):
                self._log_once(f"etcd's only member {member.name} gets the peer URL {peer_url} for further members")
                await membership.update(member.id, peer_url)
            case Promote(member):
                try:
                    await membership.promote(member.id)
                except RequestRejected as error:  # it is behind the leader
                    log.debug("%s is not promoted yet: %s", member.name, error)
                else:
                    self._log_once(f"etcd's member {member.name} has a vote")

    def _log_once(self, message: str) -> None:
        if message not in self._logged:
            log.warning("%s", message)
        self._logged.add(message)
