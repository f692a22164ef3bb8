"""One attempt to become the leader; in a new job it also opens the first round, in the same transaction.

A candidate in a job without a rendezvous state needs only the spec to build the first one. It writes the state and the
leader key in one transaction, so both reach every agent as one message. The transaction compares everything that rules
this out, above all that there is no state yet. If a compare fails, only the leader key is written, as in an old job.
"""

from collections.abc import Callable
from dataclasses import dataclass

from elasticjob_agent.rendezvous.leader.observations import ObservationClock
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.leader_plan import WriteState, pending_push, plan
from elasticjob_agent.rendezvous.protocol.transactions import FirstState, Push, SessionIdentity
from elasticjob_api.link_secret import new_link_secret
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_api.rendezvous_view import parse_view
from elasticjob_etcd.interface import Etcd, KeyValue


@dataclass(frozen=True, slots=True)
class Campaign:
    """The campaign of one session of an agent."""

    etcd: Etcd
    me: SessionIdentity
    link: str
    """The address of this node's listener; empty if there is none."""
    random_hex: Callable[[], str]
    """Returns eight random hex digits."""

    async def run(self, *, is_new: bool) -> RendezvousState | None:
        """Campaign once; return the state that was written with the leader key, if any.

        A state is only written if the job `is_new`, as far as this node knows. Only the watch shows whether this node
        was elected. Raises EtcdError.
        """
        if is_new and (first := self._first(await self.etcd.get(self.me.keys.spec))) is not None:
            result = await self.etcd.txn(transactions.campaign(self.me, self.link, first))
            if result.succeeded:
                return first.state
        await self.etcd.txn(transactions.campaign(self.me, self.link))
        return None

    def _first(self, spec: KeyValue | None) -> FirstState | None:
        """Return what a leader would write if there were only this spec; the transaction compares that this is so."""
        view = parse_view(self.me.keys, () if spec is None else (spec,))
        decision = plan(view, ObservationClock().update(view, now_s=0.0), self.random_hex())
        if view.spec is None or not isinstance(decision, WriteState):
            return None
        push = Push(pending_push(view).runtime_config, new_link_secret(self.random_hex))
        return FirstState(decision.state, view.spec_revision, push, is_operated=view.spec.operator is not None)
