"""The targets of the fuzzer: a function for each reader of bytes from strangers, with bytes to begin from.

A target returns for all bytes that its reader accepts or rejects as it should. An exception is a finding.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.transfer import commit_frames, frames, handshake
from elasticjob_agent.keep.transfer.errors import TransferError
from elasticjob_agent.keep.transfer.handshake import KeeperHello, KeeperIdentity, Purpose
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.link_handshake import (
    Address,
    Authenticator,
    Hello,
    Peer,
    decode,
    decode_challenge,
    encode,
    encode_challenge,
)
from elasticjob_agent.workers.error_file import read_error_file
from elasticjob_agent.workers.progress import parse_progress
from elasticjob_api import records, rendezvous_state
from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import HoldingsRecord, decode_holdings, encode_holdings
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.keys import Keys
from elasticjob_api.link_secret import decode_link_secret, encode_link_secret
from elasticjob_api.records import (
    Completion,
    ExpectedSlots,
    NodeRecord,
    NodeReport,
    NodeSamples,
    Progress,
    SpecRecord,
    Tombstone,
    TombstoneReason,
    WorkerFailure,
)
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_api.runtime_config import decode_runtime_config
from elasticjob_operator.informers.record_validation import require_size, validate

T = TypeVar("T")

_SEAL = Authenticator(b"k" * 32, Peer.DIALS, "f" * 16)
_HELLO = Hello("/elasticjob/cli/a job", Member(3, "0000000a"), "0123456789abcdef")
_KEYS = Keys("/elasticjob/c/n/j/u")
_KINDS = (SpecRecord, ExpectedSlots, NodeRecord, WorkerFailure, Completion, Tombstone, NodeReport, NodeSamples)
_RECORDS = (
    SpecRecord(min=1, max=2, desired=2, slots={0: records.SlotOwner("j-0-abcde")}),
    ExpectedSlots((1, 2)),
    NodeRecord(pod="p", pod_uid="u", lease=7, host="h", address="a", nproc=2),
    WorkerFailure(incarnation="0000000a", rank=0, exit_code=-9, message="boom", stderr="Traceback"),
    Completion("0000000a"),
    Tombstone(TombstoneReason.POD_FAILED, "OOMKilled"),
    NodeReport(pod="p", pod_uid="u", round=1, progress=Progress(3, 10, {"loss": "0.1"})),
    NodeSamples(round=1, cpu_percent=(99.5, None), memory_bytes=(1, None), progress=Progress(3, 10, {"loss": "0.1"})),
)
_STATE = RendezvousState(
    phase=RoundPhase.ACTIVE,
    round=3,
    nonce="n",
    charged_failures="1:0,5",
    nprocs="2x2",
    members=(Member(0, "0000000a"),),
)


_STEP = KeptStep(Lineage(7, "0a1b2c3d"), 120, 8)
_PART = KeptPart(_STEP, 3)
_MESSAGES = (
    frames.Offer(_PART, (("__3_0.distcp", 1 << 29), ("sub/.metadata", 0)), _STEP.lineage),
    frames.Get(_PART, 4321),
    frames.Want((0, 5)),
    frames.Sums((0, None, 1)),
    frames.Bad((0,)),
    frames.Later(1.5),
    frames.Busy((Address("10.0.0.7", 80),)),
    frames.Have(),
)
_KEEPER_HELLO = KeeperHello(Purpose.PUT, KeeperIdentity(_HELLO.job, "0000000f", _HELLO.member), _HELLO.nonce)


@dataclass(frozen=True, slots=True)
class Target:
    """A reader, and bytes that it takes."""

    read: Callable[[bytes], None]
    seeds: Sequence[bytes]


def link(data: bytes) -> None:
    """Both lines of a link; a hello that is taken is sealed, so it is ours, byte for byte."""
    for reader in (lambda: decode_challenge(data), lambda: decode(data, _SEAL)):
        try:
            found = reader()
        except RecordError:
            continue
        said = encode(found, _SEAL) if isinstance(found, Hello) else encode_challenge(found)
        assert said == data


def keeper(data: bytes) -> None:
    """Lines between keepers; a message that is taken is written as it was read."""
    _read_again(data, frames.decode, frames.encode)
    _read_again(data, commit_frames.decode_announcement, commit_frames.encode_announcement)
    _read_again(data, commit_frames.decode_safe_point, commit_frames.encode_safe_point)
    with contextlib.suppress(TransferError):
        handshake.decode_challenge(data)
    with contextlib.suppress(TransferError):
        handshake.decode_hello(data, _SEAL)


def _read_again(data: bytes, read: Callable[[bytes], T], write: Callable[[T], bytes]) -> None:
    with contextlib.suppress(TransferError):
        message = read(data)
        assert read(write(message)) == message


def stored(data: bytes) -> None:
    """Keys, and records of every kind: what is taken is written as it was read, and judged by the operator."""
    _KEYS.parse(_KEYS.everything + data.decode(errors="replace"))
    for kind in _KINDS:
        try:
            require_size(data, kind.__name__.lower())
            record = records.decode(kind, data)
        except RecordError:
            continue
        assert records.decode(kind, records.encode(record)) == record
        _judge(record)
    for reader in (
        rendezvous_state.decode_state,
        rendezvous_state.decode_membership,
        rendezvous_state.decode_leader,
        decode_runtime_config,
        decode_link_secret,
        _holdings,
    ):
        try:
            record = reader(data)
        except RecordError:
            continue
        _judge(record)


def _holdings(data: bytes) -> HoldingsRecord:
    record = decode_holdings(data)
    assert decode_holdings(encode_holdings(record)) == record
    return record


def _judge(record: object) -> None:
    try:
        validate(record, job="j")
    except RecordError:
        return


def told(data: bytes) -> None:
    """An error file and a line of progress: what is kept is short, and can be stored."""
    with tempfile.TemporaryDirectory(dir=_quick()) as folder:
        path = Path(folder, "error.json")
        path.write_bytes(data)
        found = read_error_file(path)
    assert len(found.message) <= 1024
    assert 0 <= found.time_ns < 2**63
    samples = NodeSamples(round=1, progress=parse_progress(data))
    assert records.decode(NodeSamples, records.encode(samples)) == samples


def _quick() -> str | None:
    """Memory, if files can be had there."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


TARGETS = {
    "link": Target(link, (encode(_HELLO, _SEAL), encode_challenge(_HELLO.nonce))),
    "keeper": Target(
        keeper,
        (
            *(frames.encode(message) for message in _MESSAGES),
            commit_frames.encode_announcement(Announcement(lineage=_STEP.lineage, held={_STEP: frozenset({0, 3})})),
            commit_frames.encode_safe_point(SafePoint(_STEP.lineage, _STEP, _STEP)),
            handshake.encode_challenge("0" * 16),
            handshake.encode_hello(_KEEPER_HELLO, _SEAL),
        ),
    ),
    "stored": Target(
        stored,
        (
            *(records.encode(record) for record in _RECORDS),
            rendezvous_state.encode_state(_STATE),
            encode_link_secret(b"k" * 32),
            b"k1 41234 0badcafe.6.0000000f.90.2 7.0000000a.120.8:0-3,5;6.0000000f.90.2:1",
            b"c/failures/1/0000.0",
        ),
    ),
    "told": Target(
        told,
        (
            b'{"message": {"message": "boom", "extraInfo": {"timestamp": "1700000000.5"}}}',
            b'{"step": 3, "total": 10, "metrics": {"loss": 0.5}}',
        ),
    ),
}
