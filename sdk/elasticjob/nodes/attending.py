"""A node that joins: has the function from the asker, is a node until all is over, and ends when the asker is gone."""

import asyncio

from elasticjob.errors import CallerGone
from elasticjob.nodes import guest
from elasticjob.nodes.asker import fail
from elasticjob.nodes.node import Life, meeting_place, node_settings
from elasticjob_agent.node import run_node
from elasticjob_api.exit_codes import ExitCode
from elasticjob_etcd.protocol import Endpoint

_STOP_S = 15.0
"""For the workers of a node whose asker is gone; their short grace is 5."""


async def attend(rdzv_endpoint: str, rdzv_id: str, life: Life, *, nprocs: int | None, join_timeout_s: float) -> None:
    """Take part once; raises CallError."""
    place = meeting_place(rdzv_endpoint)
    endpoint = Endpoint((place.target,))
    visit = await guest.come(endpoint, rdzv_id, within_s=join_timeout_s)
    try:
        settings = node_settings(
            visit.terms,
            visit.parcel,
            where=visit.where,
            endpoint=endpoint,
            place=place,
            life=life,
            nprocs=nprocs or visit.terms.nprocs,
        )
        node = asyncio.create_task(run_node(settings, life.told), name="node")
        gone = asyncio.create_task(visit.asker_gone(), name="asker gone")
        await asyncio.wait({node, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not node.done():
            node.cancel()
            await asyncio.wait({node}, timeout=_STOP_S)
            raise CallerGone(f"the asker at {visit.where.host}:{visit.where.port} is gone; this node has stopped")
        if node.result().code != ExitCode.OK:
            fail(node.result(), None)
    finally:
        visit.close()
