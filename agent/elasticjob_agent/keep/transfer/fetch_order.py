"""Which holder a fetcher asks next, and when. The times are arguments; there is no I/O.

A busy holder is asked again after a pause that grows; it names keepers that have just got the part, and they are asked
first. A holder that does not have the part is not asked again. One that fails is asked a few times more: its keeper may
be starting again. A failure after progress counts as the first one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol.link_handshake import Address

MAX_FAILURES = 4
MAX_SOURCES = 4096
_FIRST_PAUSE_S, _LONGEST_BUSY_PAUSE_S = 0.05, 2.0
_FAILURE_PAUSE_S = 0.2
_MOST_DOUBLINGS = 10


@dataclass(slots=True)
class _Source:
    address: Address
    ask_at_s: float
    busy: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class NextSource:
    """Ask this holder after `wait_s` seconds."""

    address: Address
    wait_s: float


class FetchOrder:
    """The holders of one part that may still have an answer; `random` returns values from 0 to 1."""

    def __init__(self, holders: Iterable[Address], *, random: Callable[[], float]) -> None:
        self._random = random
        self._sources: dict[Address, _Source] = {}
        self._known: set[Address] = set()
        for address in holders:
            self._add(address, 0.0)

    def next_source(self, *, now_s: float) -> NextSource | None:
        """Return the holder that can be asked first; None if none is left. Among equals the oldest is first."""
        if not self._sources:
            return None
        first = min(self._sources.values(), key=lambda source: max(source.ask_at_s, now_s))
        return NextSource(first.address, max(0.0, first.ask_at_s - now_s))

    def note_busy(self, address: Address, others: Iterable[Address], *, now_s: float) -> None:
        """Ask the holder again later, and these others before it."""
        if source := self._sources.get(address):
            pause_s = min(_LONGEST_BUSY_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(source.busy, _MOST_DOUBLINGS))
            source.busy += 1
            source.ask_at_s = now_s + pause_s * (0.5 + self._random() / 2)  # spread over fetchers that began together
        for other in others:
            self._add(other, now_s)

    def note_failure(self, address: Address, *, progressed: bool, now_s: float) -> None:
        """Ask the holder again after a pause, unless it has failed too often."""
        if source := self._sources.get(address):
            source.failures = 1 if progressed else source.failures + 1
            source.ask_at_s = now_s + _FAILURE_PAUSE_S * 2 ** (source.failures - 1)
            if source.failures >= MAX_FAILURES:
                del self._sources[address]

    def note_useless(self, address: Address) -> None:
        """Never ask this address again: it has no such part, or belongs to another job or run."""
        self._sources.pop(address, None)

    def _add(self, address: Address, ask_at_s: float) -> None:
        if address not in self._known and len(self._known) < MAX_SOURCES:
            self._known.add(address)
            self._sources[address] = _Source(address, ask_at_s)
