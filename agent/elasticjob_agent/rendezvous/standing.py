"""One attempt to become the closer; in a new job it opens the first round in the same transaction.

Who stands where no world was ever seen knows all that the first one takes, once it has read the spec. Written with the
closer's key, both reach every agent as one message, and a thousand agents have one less to take in before they start.
Anything that speaks against it, a world above all, is a fence: then only the key is asked for, as at any other time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from elasticjob_agent.rendezvous import txns
from elasticjob_agent.rendezvous.plan import first_world
from elasticjob_agent.rendezvous.txns import First, Identity, News
from elasticjob_agent.rendezvous.view import decode_slots
from elasticjob_api.errors import RecordError
from elasticjob_api.link_key import new_link_key
from elasticjob_api.terms import terms_of
from elasticjob_api.world import World
from elasticjob_etcd.protocol import Etcd, KeyValue


@dataclass(frozen=True, slots=True)
class Standing:
    """How one stay of an agent stands."""

    etcd: Etcd
    me: Identity
    link: str
    """Where members find this node's listener; empty: nowhere."""
    draw: Callable[[], str]
    """Eight random hex digits."""

    async def stand(self, *, is_new: bool) -> World | None:
        """Stand once; the world that went with it, if the job `is_new` as far as this node has seen.

        Whether it was elected only the watch tells. Raises EtcdError.
        """
        if is_new and (first := self._first(await self.etcd.get(self.me.keys.spec))) is not None:
            result = await self.etcd.txn(txns.elect(self.me, self.link, first))
            if result.succeeded:
                return first.world
        await self.etcd.txn(txns.elect(self.me, self.link))
        return None

    def _first(self, kv: KeyValue | None) -> First | None:
        try:
            spec = None if kv is None else decode_slots(kv.value)
        except RecordError:
            return None  # the closer says so, once it is one
        # After a wipe (`first_round` is above 1 then) those who remember are given time to come back, as by any closer.
        if kv is None or spec is None or spec.suspended or spec.first_round > 1:
            return None
        news = News(terms_of(spec), new_link_key(self.draw))
        return First(first_world(spec, self.draw()), kv.mod_revision, news, operated=spec.operator is not None)
