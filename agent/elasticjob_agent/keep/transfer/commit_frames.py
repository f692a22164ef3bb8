"""The two messages of a commit channel, as `frames` has those of a transfer.

keeper → leader's keeper    AT: what the keeper holds and knows
leader's keeper → keeper    SAFE: what is committed, and the floor
"""

import json
from dataclasses import dataclass, field
from typing import Any, TypeVar

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.rules.persisting import PersistAnnouncement, PersistOrder
from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_agent.keep.transfer.frames import refuse_constant
from elasticjob_api import codec
from elasticjob_api.errors import CodecError, ContractError
from elasticjob_api.kept_steps import (
    PART_LIMIT,
    Holdings,
    KeptStep,
    Lineage,
    PersistedStep,
    format_parts,
    parse_parts,
)

T = TypeVar("T")

MAX_MESSAGE_BYTES = 1 << 16
MAX_STEPS = 64
"""The most steps of an announcement; a node has three of its own and two of each member that it keeps replicas for."""
MAX_PARTS = 4 * PART_LIMIT
"""The most parts of all these steps: a few bytes may name 65,536, which need 4 MB at the leader's keeper."""
_SHOWN = 60


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise CodecError(path, "is not a text")
    return value


def _write_holdings(held: Holdings) -> list[str]:
    return [f"{step}:{format_parts(held[step])}" for step in sorted(held)]


def _read_holdings(value: Any, path: str) -> Holdings:
    if not isinstance(value, list) or len(value) > MAX_STEPS:
        raise CodecError(path, f"is not a list of at most {MAX_STEPS} steps")
    held: dict[KeptStep, frozenset[int]] = {}
    left = MAX_PARTS
    for item in value:
        name, _, indices = _text(item, path).partition(":")
        step = KeptStep.parse(name)
        held[step] = parse_parts(indices, step.parts)
        left -= len(held[step])
        if left < 0:
            raise CodecError(path, f"has more than {MAX_PARTS} parts")
    return held


def _newest(held: Holdings) -> Holdings:
    """Return the newest of these steps, as many as an announcement may have."""
    found: dict[KeptStep, frozenset[int]] = {}
    left = MAX_PARTS
    for step in sorted(held, reverse=True)[:MAX_STEPS]:
        left -= len(held[step])
        if left < 0:
            break
        found[step] = held[step]
    return found


_LINEAGE = codec.with_codec(str, lambda value, path: Lineage.parse(_text(value, path)))
_STEP = codec.with_codec(str, lambda value, path: KeptStep.parse(_text(value, path)))
_HOLDINGS = codec.with_codec(_write_holdings, _read_holdings)
_PERSISTED = codec.with_codec(str, lambda value, path: PersistedStep.parse(_text(value, path)))


@dataclass(frozen=True, slots=True)
class _NewsRecord:
    directory: str = ""
    newest: PersistedStep | None = field(default=None, metadata=_PERSISTED)
    is_writing: bool = False
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class _OrderRecord:
    step: KeptStep = field(metadata=_STEP)
    sources: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class _AnnouncementRecord:
    lineage: Lineage = field(metadata=_LINEAGE)
    held: Holdings = field(metadata=_HOLDINGS)
    committed: KeptStep | None = field(default=None, metadata=_STEP)
    oldest_uncommitted: KeptStep | None = field(default=None, metadata=_STEP)
    is_settled: bool = False
    is_restored: bool = False
    persist: _NewsRecord | None = None
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class _SafePointRecord:
    lineage: Lineage = field(metadata=_LINEAGE)
    committed: KeptStep | None = field(default=None, metadata=_STEP)
    floor: KeptStep | None = field(default=None, metadata=_STEP)
    order: _OrderRecord | None = None
    persisted: PersistedStep | None = field(default=None, metadata=_PERSISTED)
    found: PersistedStep | None = field(default=None, metadata=_PERSISTED)


def encode_announcement(announcement: Announcement) -> bytes:
    """Return one line of ASCII without its end; the oldest steps are left out if there are too many."""
    news = announcement.persist
    record = _AnnouncementRecord(
        announcement.lineage,
        _newest(announcement.held),
        announcement.committed,
        announcement.oldest_uncommitted,
        announcement.is_settled,
        announcement.is_restored,
        None if news is None else _NewsRecord(news.directory, news.newest, news.is_writing, news.has_failed),
        announcement.is_overdue,
    )
    return b"AT " + _dump(record)


def decode_announcement(data: bytes) -> Announcement:
    """Return the announcement in `data`; raise FrameError for anything that no keeper would send."""
    record = _load(_AnnouncementRecord, b"AT", data)
    news = record.persist
    return Announcement(
        lineage=record.lineage,
        held=record.held,
        committed=record.committed,
        oldest_uncommitted=record.oldest_uncommitted,
        is_settled=record.is_settled,
        is_restored=record.is_restored,
        is_overdue=record.is_overdue,
        persist=None
        if news is None
        else PersistAnnouncement(news.directory, news.newest, news.is_writing, news.has_failed),
    )


def encode_safe_point(point: SafePoint) -> bytes:
    """Return one line of ASCII without its end."""
    order = None if point.order is None else _OrderRecord(point.order.step, point.order.sources, point.order.number)
    of_disk = order, point.persisted, point.found
    return b"SAFE " + _dump(_SafePointRecord(point.lineage, point.committed, point.floor, *of_disk))


def decode_safe_point(data: bytes) -> SafePoint:
    """Return the safe point in `data`; raise FrameError for anything that no leader's keeper would send."""
    record = _load(_SafePointRecord, b"SAFE", data)
    order = None if record.order is None else PersistOrder(record.order.step, record.order.sources, record.order.number)
    return SafePoint(record.lineage, record.committed, record.floor, order, record.persisted, record.found)


def _dump(record: _AnnouncementRecord | _SafePointRecord) -> bytes:
    return json.dumps(codec.write(record), separators=(",", ":")).encode("ascii")


def _load(kind: type[T], word: bytes, data: bytes) -> T:
    found, _, text = data.partition(b" ")
    if found != word or len(data) > MAX_MESSAGE_BYTES:
        raise FrameError(f"not {word.decode()} of a commit channel: {data[:_SHOWN]!r}")
    try:
        return codec.read_known(kind, json.loads(text.decode("ascii"), parse_constant=refuse_constant))
    except (ContractError, ValueError, RecursionError) as error:
        raise FrameError(f"{word.decode()} with a value that no keeper sends: {str(error)[:_SHOWN]}") from error
