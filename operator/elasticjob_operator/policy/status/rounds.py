"""PURE: `status.rounds`: the last rounds of a job: when each ran, why it was opened, and who took part.

Nothing else keeps this: etcd forgets a round when the next but one closes. Several rounds may pass between two writes
of the status, so the ledger takes each of them in as it is seen; the status before is where a new process begins. A
round that began and ended between two looks has both times equal, and no cause. Rounds before it are missing.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from elasticjob_api.rendezvous_state import Member, RendezvousState, from_run_lengths
from elasticjob_api.status import RoundStatus
from elasticjob_operator.model.rendezvous_view import RendezvousView
from elasticjob_operator.model.timestamps import to_rfc3339_ms

MAX_ROUNDS = 32
"""Rounds; with the limits of text below at most 64 KiB in the object, and 4 KiB in most."""
MESSAGE_LIMIT = 256
SLOTS_LIMIT = 1024
_RUN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def update_rounds(before: tuple[RoundStatus, ...], view: RendezvousView, now_s: float) -> tuple[RoundStatus, ...]:
    """The rounds, with what is seen now; the same tuple's value when it is nothing new."""
    active = view.is_active
    if active is not None and before and before[-1].round == active.round and not before[-1].end_time:
        return before
    if view.world is None:
        return before  # a store that was wiped has nothing about the round that runs
    ended = tuple(each if each.end_time else replace(each, end_time=to_rfc3339_ms(now_s)) for each in before)
    if active is None:
        return (*ended, *_passed(ended, view, view.world, to_rfc3339_ms(now_s)))[-MAX_ROUNDS:]
    if any(each.round == active.round for each in before):
        return ended
    return (*ended, _started_round(active, now_s))[-MAX_ROUNDS:]


def _passed(
    known: tuple[RoundStatus, ...], view: RendezvousView, world: RendezvousState, now: str
) -> Iterator[RoundStatus]:
    """Yield the last round that was active, if it began and ended since the last look."""
    last = view.membership
    if last is None or (known and last.round <= known[-1].round):
        return
    nprocs = from_run_lengths(world.nprocs, "x") if world.members == last.members else ()
    yield RoundStatus(
        round=last.round,
        start_time=now,
        end_time=now,
        nodes=len(last.members),
        workers=sum(map(int, nprocs)),
        slots=slots_text(last.members),
    )


def _started_round(world: RendezvousState, now_s: float) -> RoundStatus:
    return RoundStatus(
        round=world.round,
        start_time=to_rfc3339_ms(now_s),
        cause=world.cause.value,
        message=world.message[:MESSAGE_LIMIT],
        nodes=len(world.members),
        workers=sum(int(nproc) for nproc in from_run_lengths(world.nprocs, "x")),
        slots=slots_text(world.members),
    )


def slots_text(members: tuple[Member, ...]) -> str:
    """The slots in rank order; a run of neighbours as `first-last`."""
    runs: list[list[int]] = []
    for member in members:
        if runs and member.slot == runs[-1][1] + 1:
            runs[-1][1] = member.slot
        else:
            runs.append([member.slot, member.slot])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return text if len(text) <= SLOTS_LIMIT else f"{text[:SLOTS_LIMIT].rpartition(',')[0]},..."


def slots_of(text: str, *, highest: int) -> Iterator[int]:
    """What `slots_text` wrote, up to the slot `highest`; nothing of a part that is no such text."""
    for part in text.split(","):
        if found := _RUN.fullmatch(part):
            first, last = int(found[1]), int(found[2] or found[1])
            yield from range(first, min(last, highest) + 1)
