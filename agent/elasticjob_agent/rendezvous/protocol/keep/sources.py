"""Where a member fetches the parts of the restored step: word `sources` of the state.

| text | meaning |
| --- | --- |
| empty | the records of the nodes name the holders |
| `0-416:0,417:917` | parts 0 to 416 are at the members of ranks 0 to 416, part 417 at rank 917 |
| `3-5:x<token>` | parts 3 to 5 are at this node, which is no member: it leaves and serves them until then |
| `p:<run>` | the step is in the shared directory, and this run wrote it |
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Holdings, KeptStep, PersistedStep
from elasticjob_api.rendezvous_state import Member, RendezvousState, decode_members

SOURCES_BYTES = 4096
"""The longest text; a longer one is left out."""

_PERSISTED = "p:"
_NOT_MEMBER = "x"
_RUN = re.compile(r"[0-9A-Za-z_-]{1,64}")
_WORD = re.compile(r"(0|[1-9][0-9]{0,4})(?:-([1-9][0-9]{0,4}))?:(?:(0|[1-9][0-9]{0,4})|x([0-9a-f]{12}))")


@dataclass(frozen=True, slots=True)
class Sources:
    """One holder of each part of a step; no holder at all if the text was left out."""

    run: str = ""
    """The run that wrote the step into the shared directory; empty if members hold it."""
    holders: Mapping[int, Member] | None = None
    """Part → one of its holders."""


def assign_sources(step: KeptStep, members: Sequence[Member], holdings: Mapping[Member, Holdings]) -> str:
    """Return the text that names a holder of each part, members before others; empty if it would be long.

    Part i is best fetched from the member of rank i, where it usually is: so fetches spread over the members.
    """
    held = {member: parts for member, each in holdings.items() if (parts := each.get(step))}
    first_places = _first_places(step, members, held)
    words: list[_Run] = []
    for part in range(step.parts):
        following = words[-1].next_place() if words else 0
        near = (rank for rank in (part, following) if _is_holder(members, held, rank, part))
        if (place := next(near, first_places.get(part))) is None:
            return ""
        if words and words[-1].is_continued(part, place):
            words[-1].last = part
        else:
            words.append(_Run(part, part, place))
    text = ",".join(str(word) for word in words)
    return text if len(text) <= SOURCES_BYTES else ""


@dataclass(slots=True)
class _Run:
    """Consecutive parts at consecutive ranks, or at one node that is no member."""

    first: int
    last: int
    place: int | Member

    def next_place(self) -> int | Member:
        return self.place if isinstance(self.place, Member) else self.place + self.last - self.first + 1

    def is_continued(self, part: int, place: int | Member) -> bool:
        return part == self.last + 1 and place == self.next_place()

    def __str__(self) -> str:
        parts = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{parts}:{_NOT_MEMBER + self.place.token if isinstance(self.place, Member) else self.place}"


def _is_holder(
    members: Sequence[Member], held: Mapping[Member, frozenset[int]], place: int | Member, part: int
) -> bool:
    return isinstance(place, int) and place < len(members) and part in held.get(members[place], ())


def _first_places(
    step: KeptStep, members: Sequence[Member], held: Mapping[Member, frozenset[int]]
) -> dict[int, int | Member]:
    """Return part → the lowest rank of its holders, or else a holder that is no member."""
    others = sorted(held.keys() - set(members))
    places: list[tuple[int | Member, Member]] = [*enumerate(members), *((member, member) for member in others)]
    found: dict[int, int | Member] = {}
    for place, member in places:
        if len(found) == step.parts:
            break
        for part in held.get(member, ()):
            found.setdefault(part, place)
    return found


def parse_sources(text: str, step: KeptStep, members: Sequence[Member]) -> Sources:
    """Return the holders that this text names; raise RecordError if it cannot be read."""
    if text.startswith(_PERSISTED):
        if not _RUN.fullmatch(run := text.removeprefix(_PERSISTED)):
            raise RecordError(f"sources name run {run!r:.80}")
        return Sources(run=run)
    if len(text) > SOURCES_BYTES:
        raise RecordError(f"sources have {len(text)} characters; {SOURCES_BYTES} are the most")
    holders: dict[int, Member] = {}
    for word in text.split(",") if text else ():
        holders.update(_parse_word(word, step, members))
    return Sources(holders=holders or None)


def _parse_word(word: str, step: KeptStep, members: Sequence[Member]) -> dict[int, Member]:
    if not (found := _WORD.fullmatch(word)):
        raise RecordError(f"sources have the word {word!r:.60}")
    parts = range(int(found[1]), int(found[2] or found[1]) + 1)
    if not parts or parts.stop > step.parts:
        raise RecordError(f"sources name parts {word!r:.60} of a step of {step.parts} parts")
    if found[4] is not None:
        return dict.fromkeys(parts, decode_members(found[4].encode())[0])
    begin = int(found[3])
    if begin + len(parts) > len(members):
        raise RecordError(f"sources {word!r:.60} name a rank that {len(members)} members do not have")
    return dict(zip(parts, members[begin:], strict=False))


def persisted_sources(run: str) -> str:
    """Return the text for a step that is read from the shared directory."""
    return f"{_PERSISTED}{run}"


def persisted_to_restore(state: RendezvousState) -> PersistedStep | None:
    """Return the step that every member reads in the shared directory, None if there is none; raise RecordError."""
    step = state.step_to_restore()
    run = "" if step is None else parse_sources(state.sources, step, state.members).run
    return PersistedStep(run, step) if step is not None and run else None
