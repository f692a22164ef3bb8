"""One attempt to become the closer; in a new job it opens the first round in the same transaction.

A candidate in a job without a world needs only the spec to build the first one. It writes the world and the closer's
key in one transaction, so both reach every agent as one message. The transaction is fenced by everything that rules it
out, a world above all. If the fence holds it up, only the key is written, as at any other time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from elasticjob_agent.rendezvous.leader.observations import ObservationClock
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.leader_plan import WriteWorld, pending_push, plan
from elasticjob_agent.rendezvous.protocol.transactions import FirstState, Push, SessionKeys
from elasticjob_agent.rendezvous.protocol.view import parse_view
from elasticjob_api.link_secret import new_link_secret
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_etcd.interface import Etcd, KeyValue


@dataclass(frozen=True, slots=True)
class Campaign:
    """The campaign of one stay of an agent."""

    etcd: Etcd
    me: SessionKeys
    link: str
    """Where members find this node's listener; empty: nowhere."""
    draw: Callable[[], str]
    """Eight random hex digits."""

    async def run(self, *, is_new: bool) -> RendezvousState | None:
        """Stand once; the world that went with it, if the job `is_new` as far as this node has seen.

        Whether it was elected only the watch tells. Raises EtcdError.
        """
        if is_new and (first := self._first(await self.etcd.get(self.me.keys.spec))) is not None:
            result = await self.etcd.txn(transactions.campaign(self.me, self.link, first))
            if result.succeeded:
                return first.world
        await self.etcd.txn(transactions.campaign(self.me, self.link))
        return None

    def _first(self, spec: KeyValue | None) -> FirstState | None:
        """What a closer would write that sees this spec and nothing else; that there is nothing else is a fence."""
        view = parse_view(self.me.keys, () if spec is None else (spec,))
        decision = plan(view, ObservationClock().update(view, now_s=0.0), self.draw())
        if view.spec is None or not isinstance(decision, WriteWorld):
            return None
        push = Push(pending_push(view).runtime_config, new_link_secret(self.draw))
        return FirstState(decision.world, view.spec_revision, push, is_operated=view.spec.operator is not None)
