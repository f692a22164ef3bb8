"""Records a job's states and reports in etcd as events of its journal, while the job runs.

A thread with a watch of its own, through a way to etcd that no fault cuts. It begins again when etcd was wiped. It also
keeps the period of reports short, so that the newest committed step is known within two seconds.
"""

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_to_restore
from elasticjob_api import records
from elasticjob_api.errors import RecordError
from elasticjob_api.keys import Keys, ParsedKey, cli_prefix
from elasticjob_api.records import NodeRecord, NodeSamples, SpecRecord
from elasticjob_api.rendezvous_state import Member, RendezvousState, decode_leader, decode_state
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Endpoint, Put, Txn, WatchEvent

_REPORT_PERIOD_S = 2.0
_PAUSE_S = 0.5


class Observer:
    """The watch of one job; a context manager."""

    def __init__(self, endpoint: str, run_id: str, journal: Path, spec: SpecRecord) -> None:
        """`spec` is written before the first agent starts."""
        self._endpoint = Endpoint((endpoint,))
        self._keys = Keys(cli_prefix(run_id))
        self._spec = replace(spec, report_period_s=_REPORT_PERIOD_S)
        self._fd = os.open(journal, os.O_WRONLY | os.O_APPEND)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._task: asyncio.Task[None] | None = None
        self.addresses: dict[Member, str] = {}
        """The address of each known session."""
        self.hosts: dict[Member, str] = {}
        """The name of its machine."""
        self.joined: set[int] = set()
        """The process of the agent of each session so far."""
        self.leader: Member | None = None
        self.state: RendezvousState | None = None
        self.reports: dict[str, Mapping[str, Any]] = {}
        """Address of a node → its last report."""

    def __enter__(self) -> Self:
        asyncio.run(self._put_spec(self._spec))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
        self._thread.join(20)
        os.close(self._fd)

    def write(self, event: str, **fields: object) -> None:
        """Append one event to the journal."""
        os.write(self._fd, json.dumps({"t": time.time(), "event": event, **fields}).encode() + b"\n")

    def address_of_leader(self) -> str:
        """Return the address of the leader's node; empty if it is not known."""
        return "" if self.leader is None else self.addresses.get(self.leader, "")

    def _run(self) -> None:
        self._task = self._loop.create_task(self._watch())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    async def _watch(self) -> None:
        while True:
            client = EtcdClient(self._endpoint)
            try:
                await self._watch_one_store(client)
            except EtcdError:
                await asyncio.sleep(_PAUSE_S)
            finally:
                await client.close()

    async def _watch_one_store(self, client: EtcdClient) -> None:
        listed = await client.range(self._keys.everything)
        for kv in listed.kvs:
            await self._take(WatchEvent(kv))
        async with contextlib.aclosing(
            client.watch(self._keys.everything, start_revision=listed.revision + 1)
        ) as batches:
            async for batch in batches:
                for event in batch.events:
                    await self._take(event)

    async def _take(self, event: WatchEvent) -> None:
        place = self._keys.parse(event.kv.key)
        if place is None or event.deleted:
            return
        with contextlib.suppress(RecordError):
            if place.kind == "spec":
                await self._shorten_period(records.decode(SpecRecord, event.kv.value))
            elif place.kind == "world":
                self._take_state(decode_state(event.kv.value))
            elif place.kind == "closer":
                self.leader = decode_leader(event.kv.value).member
            elif place.kind == "node":
                node = records.decode(NodeRecord, event.kv.value)
                self.addresses[_member(place)], self.hosts[_member(place)] = node.address, node.host
                self.joined.add(int(node.pod.rpartition("-")[2]))
            elif place.kind == "samples":
                self._take_report(_member(place), records.decode(NodeSamples, event.kv.value))

    def _take_state(self, state: RendezvousState) -> None:
        if self.state == state:
            return
        self.state = state
        self.write(
            "state",
            phase=state.phase.value,
            round=state.round,
            nonce=state.nonce,
            cause=state.cause.value,
            run=state.run,
            restore=state.restore,
            members=[member.token for member in state.members],
            nodes=[self.hosts.get(member, "") for member in state.members],
            history=state.history,
            next_history=state.history_of_next_round(),
            is_from_disk=persisted_to_restore(state) is not None,
        )

    def _take_report(self, member: Member, samples: NodeSamples) -> None:
        keep, address = samples.keep, self.addresses.get(member, "")
        if keep is None:
            return
        report = {"lineage_round": keep.round, "step": keep.step, "copies": keep.copies, "degraded": keep.degraded}
        self.reports[address] = {**report, "round": samples.round}
        self.write("report", member=member.token, address=address, round=samples.round, **report)

    async def _shorten_period(self, spec: SpecRecord) -> None:
        if spec.report_period_s != _REPORT_PERIOD_S:
            await self._put_spec(replace(spec, report_period_s=_REPORT_PERIOD_S))

    async def _put_spec(self, spec: SpecRecord) -> None:
        client = EtcdClient(self._endpoint)
        try:
            await client.txn(Txn((), (Put(self._keys.spec, records.encode(spec)),)))
        finally:
            await client.close()


def _member(place: ParsedKey) -> Member:
    assert place.slot is not None
    assert place.incarnation is not None
    return Member(place.slot, place.incarnation)
