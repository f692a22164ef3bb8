"""A node whose record is missing in etcd when its peers look for it: they find it later in the same round."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keeper_lister import KeeperEntry, KeeperLister
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_api import constants
from elasticjob_api.rendezvous_state import Member
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from testing.waiting import aeventually
from tests.integration.keep.node_keeps import HOST, KEYS, ME, OTHER, SECRET, active, join, node_keep, until_complete
from tests.integration.keep.parts import publish

BOTH = replace(active(1), members=(ME, OTHER), nprocs="1x2", roles="default*2")


class CountedLister(KeeperLister):
    """Counts the looks of a leader."""

    looks = 0

    async def list_all(self) -> Mapping[Member, KeeperEntry]:
        found = await super().list_all()
        self.looks += 1
        return found


async def test_steps_are_committed_with_a_node_whose_session_was_lost_when_the_round_began(keep_dir: Path) -> None:
    store = InMemoryStore()
    lister = CountedLister(InMemoryEtcd(store), KEYS)
    directory = keep_dir.with_name("leader")
    leader = NodeKeep(OpenRequest(str(directory), KEYS.prefix, host=HOST), lister, KeepSettings(directory=directory))
    other = node_keep(keep_dir.with_name("other"), store, HOST)
    try:
        for keep, member in (leader, ME), (other, OTHER):
            await keep.start()
            keep.observe(member, link_secret=SECRET, leads=member == ME)
        join(store, ME, leader.holdings)
        for keep in leader, other:
            await until_complete(keep, BOTH)
            keep.report_start()
        await aeventually(lambda: lister.looks, what="the look that finds one node alone")
        join(store, OTHER, other.holdings)
        for rank, keep in enumerate((leader, other)):
            publish(Path(keep.variables()[constants.ENV_KEEP]), f"step-7.{rank}-of-2", {f"state-{rank}": b"x"})
        await aeventually(lambda: leader.report().step == 7, what="the commit of step 7")
    finally:
        await other.close(erase=True)
        await leader.close(erase=True)
