"""The copies of this node's own parts to its peers: one thread that makes one copy after the other.

Nothing waits for it. A peer that is slow, full or gone costs a pause; the next try goes on where the last one ended.
Without progress for a minute the step counts as settled: no further copy of it is to be expected. A step that has its
copies and is not committed for a minute is offered again. So is one to a peer that had no room a minute ago.
"""

import functools
import itertools
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from elasticjob_agent.keep.keeper.round_peers import CopyRound, RoundPeers
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.rules.replication import pending_copies
from elasticjob_agent.keep.transfer.cancel_token import CancelToken
from elasticjob_agent.keep.transfer.dialer import KeeperDialer, put_part
from elasticjob_agent.keep.transfer.errors import CancelledTransferError, TransferError
from elasticjob_agent.keep.transfer.frames import Bad, Dead, Full, Have, Later
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.keep.volume.errors import VolumeError
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import KeptStep
from elasticjob_api.rendezvous_state import Member

STALL_S = 60.0
"""Seconds without progress after which no further copy of a step is expected."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_NICE = 10
"""Copies yield to the training."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _RoundCopies:
    """The copies of one round, and what is in their way."""

    round: CopyRound
    peers: RoundPeers | None = None
    token: CancelToken = field(default_factory=CancelToken)
    done: dict[KeptStep, dict[Member, set[int]]] = field(default_factory=dict)
    """The parts that each member has got."""
    step: KeptStep | None = None
    """The step that is copied now; what follows is about it."""
    progress_s: float = 0.0
    """When bytes went out last that were not sent before, or a member had a part."""
    reached: dict[tuple[Member, int], tuple[int, int]] = field(default_factory=dict)
    """The most bytes of each part that a member had kept when a transfer began, and that it was sent then."""
    full: dict[Member, float] = field(default_factory=dict)
    """The members without room, and when each is asked again."""
    try_at_s: dict[Member, float] = field(default_factory=dict)
    failures: dict[Member, int] = field(default_factory=dict)
    troubles: dict[Member, str] = field(default_factory=dict)

    def turn_to(self, step: KeptStep, now_s: float, held: Collection[KeptStep]) -> None:
        """Begin with this step; earlier troubles are forgotten, as its members may have room and time again."""
        if step != self.step:
            self.step, self.progress_s = step, now_s
            self.full.clear()
            self.reached.clear()
            self.done = {known: got for known, got in self.done.items() if known in held}

    def ask_again(self, step: KeptStep, now_s: float) -> None:
        """Offer all parts of this step once more."""
        if self.done.pop(step, None):
            self.progress_s = now_s

    def note_sent(self, part: KeptPart, target: Member, reached: tuple[int, int], now_s: float) -> None:
        """Count these bytes as progress, unless an earlier transfer to this member had sent them in vain."""
        if reached > self.reached.get((target, part.index), (0, 0)):
            self.reached[target, part.index] = reached
            self.progress_s = now_s

    def note_failure(self, target: Member, why: str, now_s: float, pause_s: float = 0.0) -> None:
        """Try this member again after a pause."""
        failures = self.failures[target] = self.failures.get(target, 0) + 1
        grown_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(failures, 10))
        self.try_at_s[target] = now_s + max(pause_s, grown_s)
        self.troubles[target] = why

    def note_success(self, part: KeptPart, target: Member, now_s: float) -> None:
        """The member has the part."""
        self.done.setdefault(part.step, {}).setdefault(target, set()).add(part.index)
        self.progress_s = now_s
        self.reached.pop((target, part.index), None)
        for notes in (self.try_at_s, self.failures, self.troubles):
            notes.pop(target, None)


_Copy = tuple[_RoundCopies, KeptPart, Member, Address]
_Answer = Have | Bad | Later | Full | Dead | str
"""The answer of a peer, or why there is none."""


class ReplicaSender:
    """Copies the oldest uncommitted step of the present round to the peers that keep it."""

    def __init__(
        self,
        dialer: KeeperDialer,
        steps: StepKeeper,
        throttle: Throttle,
        *,
        on_change: Callable[[], None],
        stall_s: float = STALL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` is called from the thread when the announcement or the progress may have changed."""
        self._dialer = dialer
        self._steps = steps
        self._throttle = throttle
        self._on_change = on_change
        self._stall_s = stall_s
        self._clock = clock
        self._condition = threading.Condition()
        self._now: _RoundCopies | None = None
        self._copied: KeptPart | None = None
        """The part that is being copied now."""
        self._was_stalled = False
        self.copied = 0
        """How many parts peers have got from here, or had already."""
        self.degraded = ""
        """Why parts have fewer copies than wanted; empty if they have them."""

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="keep copies", daemon=True).start()

    # --- for the main thread -----------------------------------------------------------------------------------------

    def begin(self, round_: CopyRound | None) -> None:
        """Copy in this round from now on; all its steps are to be copied anew."""
        with self._condition:
            self._end_round()
            self._now = None if round_ is None else _RoundCopies(round_)
            self.degraded = ""
            self._condition.notify()

    def set_peers(self, peers: RoundPeers) -> None:
        """Copy to these peers, if they are those of the round."""
        with self._condition:
            if self._now is not None and self._now.round.lineage == peers.lineage:
                self._now.peers = peers
                self._now.try_at_s.clear()
                self._condition.notify()

    def end_round(self) -> None:
        """End the copy of now, and begin no further one."""
        with self._condition:
            self._end_round()
            self._now = None

    def wake(self) -> None:
        """Look again for something to copy; end the copy of a part that was dropped: only that keeps its memory."""
        with self._condition:
            if self._copied is not None and self._now is not None and not self._is_held(self._copied):
                self._now.token.end_connection()
            self._condition.notify()

    def _is_held(self, part: KeptPart) -> bool:
        return part.index in self._steps.volume.holdings().get(part.step, ())

    def settled(self) -> KeptStep | None:
        """Return the oldest uncommitted step if no further copy of it is made, or expected."""
        with self._condition:
            if (now := self._now) is None or now.peers is None or (found := self._steps.parts_to_copy()) is None:
                return None
            step, own = found
            is_settled = not self._pending(now, step, own) or (step == now.step and self._check_stall(now))
            return step if is_settled else None

    def copies_of(self, step: KeptStep) -> int | None:
        """Return how many peers have each own part of this step at least; None if no part of it is the node's own."""
        own, point = self._steps.own_parts(step), self._steps.point
        with self._condition:
            if not own or (now := self._now) is None:
                return None
            copies = Counter(itertools.chain.from_iterable(now.done.get(step, {}).values()))
            made = min(copies[index] for index in own)
            # A step may be committed before this node has asked a peer: each node may have published all of it.
            is_committed = point is not None and point.lineage == now.round.lineage and point.committed == step
            if not is_committed or self.degraded or now.peers is None:
                return made
            return max(made, len(now.peers.targets(now.round, now.full)))

    # --- the thread --------------------------------------------------------------------------------------------------

    def _end_round(self) -> None:
        if self._now is not None:
            self._now.token.cancel()

    def _run(self) -> None:
        os.nice(_NICE)  # of this thread alone
        while True:
            try:
                self._copy(*self._await_copy())
            except Exception:  # a fault of one copy must not end all later ones
                log.exception("a copy to a peer failed")
                time.sleep(_LONGEST_PAUSE_S)

    def _await_copy(self) -> _Copy:
        with self._condition:
            while True:
                found, pause_s = self._next()
                if found is not None:
                    return found
                self._condition.wait(pause_s)

    def _next(self) -> tuple[_Copy | None, float | None]:
        """Return the next copy, or how long to wait for one; None until something changes."""
        if (now := self._now) is None or now.peers is None or (found := self._steps.parts_to_copy()) is None:
            return None, None
        now_s = self._clock()
        step, own = found
        now.turn_to(step, now_s, self._steps.volume.holdings().keys())
        now.full = {member: at_s for member, at_s in now.full.items() if at_s > now_s}
        if not self._pending(now, step, own) and self._check_stall(now):
            now.ask_again(step, now_s)  # it is not committed: a member may have lost its copy
        pending = self._pending(now, step, own)
        self._note_state(now, is_done=not pending)
        times = [at_s - now_s for at_s in now.full.values()]
        for target, parts in pending.items():
            address, at_s = now.peers.addresses.get(target), now.try_at_s.get(target, 0.0)
            if address is None:
                now.troubles.setdefault(target, "its keeper's address is not known")
            elif at_s <= now_s:
                return (now, KeptPart(step, min(parts)), target, address), None
            else:
                times.append(at_s - now_s)
        if (pending or step in now.done) and not self._check_stall(now):
            times.append(max(0.0, now.progress_s + self._stall_s - now_s))
        return None, min(times, default=None)

    def _pending(self, now: _RoundCopies, step: KeptStep, own: frozenset[int]) -> Mapping[Member, frozenset[int]]:
        assert now.peers is not None
        full = now.full if step == now.step else {}
        return pending_copies(own, now.peers.targets(now.round, full), now.done.get(step, {}))

    def _check_stall(self, now: _RoundCopies) -> bool:
        return self._clock() - now.progress_s >= self._stall_s

    def _copy(self, now: _RoundCopies, part: KeptPart, target: Member, address: Address) -> None:
        answer: _Answer
        self._copied = part
        try:
            answer = put_part(
                self._dialer,
                self._steps.volume,
                part,
                address,
                lineage=now.round.lineage,
                throttle=self._throttle,
                token=now.token,
                on_sent=functools.partial(self._note_sent, now, part, target),
            )
        except CancelledTransferError:
            return
        except (VolumeError, TransferError) as error:
            if not self._is_held(part):  # it was dropped or withdrawn meanwhile
                return
            answer = str(error)
        finally:
            self._copied = None
        with self._condition:
            self._note_answer(now, part, target, answer)
        self._on_change()

    def _note_sent(self, now: _RoundCopies, part: KeptPart, target: Member, kept: int, sent: int) -> None:
        with self._condition:
            now.note_sent(part, target, (kept, sent), self._clock())

    def _note_answer(self, now: _RoundCopies, part: KeptPart, target: Member, answer: _Answer) -> None:
        now_s = self._clock()
        match answer:
            case Have():
                self.copied += 1
                now.note_success(part, target, now_s)
            case Full():
                now.full[target] = now_s + self._stall_s
                now.troubles[target] = "it has no room"
            case Later(pause_s):
                now.note_failure(target, "it takes none now", now_s, pause_s)
            case Dead():
                now.note_failure(target, "its training does not descend from this step", now_s, _LONGEST_PAUSE_S)
            case Bad():
                now.note_failure(target, "the bytes arrived damaged", now_s)
            case str():
                log.debug("no copy of part %d of step %s at slot %d: %s", part.index, part.step, target.slot, answer)
                now.note_failure(target, answer, now_s)

    # --- what is in the way ------------------------------------------------------------------------------------------

    def _note_state(self, now: _RoundCopies, *, is_done: bool) -> None:
        """Note why there are fewer copies than wanted; a step with all its copies ends that."""
        before = self.degraded, self._was_stalled
        self._was_stalled = not is_done and self._check_stall(now)
        if reason := self._reason(now):
            self.degraded = reason
        elif is_done:
            self.degraded = ""
        if before != (self.degraded, self._was_stalled):
            self._on_change()

    def _reason(self, now: _RoundCopies) -> str:
        members, copies = now.round.place.members, now.round.copies
        if members <= copies:
            return (
                f"{_count(members, 'node is', 'nodes are')} too few for {_count(copies, 'copy', 'copies')} of each part"
            )
        assert now.peers is not None
        if len(now.peers.targets(now.round, now.full)) < copies:
            return f"no room for a copy on {_slots(now.full)}"
        if self._was_stalled and now.step is not None:
            troubles = "; ".join(f"slot {each.slot}: {now.troubles[each]}" for each in sorted(now.troubles))
            return f"step {now.step.number} has got no further copy for {self._stall_s:.0f} s: {troubles:.400}"
        return ""


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _slots(members: Collection[Member]) -> str:
    return ", ".join(f"slot {member.slot}" for member in sorted(members))
