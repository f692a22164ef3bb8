"""`status.rounds`: the last rounds of a job, each with its times, its cause and its members.

No other record has this: etcd drops a round when the next but one becomes active. Several rounds may pass between two
writes of the status, so the job state records each one when it is observed. A new process starts with the rounds in the
status. If a round began and ended between two observations, both its times are equal and it has no cause. Any rounds
before it are missing.
"""

from collections.abc import Iterator
from dataclasses import replace

from elasticjob_api.errors import RecordError
from elasticjob_api.one_line import one_line
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.slot_ranges import format_slots
from elasticjob_api.status import RoundStatus
from elasticjob_operator.model.timestamps import to_rfc3339_ms

MAX_ROUNDS = 32
"""Most rounds in the status. With the limits below they take at most 160 KiB of JSON, and 4 KiB for most jobs."""
MESSAGE_LIMIT = 512
"""Longer than any message about a failed worker."""
SLOTS_LIMIT = 1024


def update_rounds(before: tuple[RoundStatus, ...], view: RendezvousView, now_s: float) -> tuple[RoundStatus, ...]:
    """Return the rounds, updated from the view; they are equal to `before` if nothing has changed."""
    active = view.active_state
    if active is not None and before and before[-1].round == active.round and not before[-1].end_time:
        return before
    if view.state is None:
        return before  # etcd was wiped: it has no record of the current round
    ended = tuple(each if each.end_time else _ended_round(each, view.state, now_s) for each in before)
    if active is None:
        return (*ended, *_passed(ended, view, view.state, to_rfc3339_ms(now_s)))[-MAX_ROUNDS:]
    if any(each.round == active.round for each in before):
        return ended
    return (*ended, _started_round(active, now_s))[-MAX_ROUNDS:]


def _passed(
    known: tuple[RoundStatus, ...], view: RendezvousView, state: RendezvousState, now: str
) -> Iterator[RoundStatus]:
    """Yield the last active round if it began and ended since the last observation."""
    last = view.membership
    if last is None or (known and last.round <= known[-1].round):
        return
    yield RoundStatus(
        round=last.round,
        start_time=now,
        end_time=now,
        nodes=len(last.members),
        workers=sum(state.workers_per_node()) if state.members == last.members else 0,
        slots=slots_text(last.members),
    )


def _started_round(state: RendezvousState, now_s: float) -> RoundStatus:
    return RoundStatus(
        round=state.round,
        start_time=to_rfc3339_ms(now_s),
        cause=state.cause.value,
        message=one_line(state.message, MESSAGE_LIMIT),
        nodes=len(state.members),
        workers=sum(state.workers_per_node()),
        slots=slots_text(state.members),
        restored_step=_restored_step(state),
    )


def _ended_round(round_: RoundStatus, state: RendezvousState, now_s: float) -> RoundStatus:
    is_given_up = state.cause is Cause.RESTORE_FAILED and state.round == round_.round + 1
    restored = None if is_given_up else round_.restored_step
    return replace(round_, end_time=to_rfc3339_ms(now_s), restored_step=restored)


def _restored_step(state: RendezvousState) -> int | None:
    """Return the number of the kept step; None without one, or if a newer agent wrote it in another form."""
    try:
        step = state.step_to_restore()
    except RecordError:
        return None
    return None if step is None else step.number


def slots_text(members: tuple[Member, ...]) -> str:
    """Return the slots in rank order, cut between two slots beyond the limit."""
    text = format_slots(member.slot for member in members)
    return text if len(text) <= SLOTS_LIMIT else f"{text[:SLOTS_LIMIT].rpartition(',')[0]},..."
