r"""The messages between two keepers, and their form: a word, a space and a JSON object.

    origin → keeper      OFFER a part        → HAVE, WANT, LATER, FULL, DEAD
    fetcher → holder     GET a part          → OFFER, BUSY, NONE
    sender → receiver    the files' bytes from the offsets of WANT, then SUMS → HAVE, BAD

Everything here may come from a hostile peer: `decode` returns a message within all limits, or raises FrameError.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_agent.keep.volume.errors import PartRefused
from elasticjob_agent.keep.volume.file_names import FILE_LIMIT, check_files
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.link_handshake import Address, parse_address
from elasticjob_api import codec
from elasticjob_api.errors import ContractError
from elasticjob_api.kept_steps import Lineage

FileList = tuple[tuple[str, int], ...]
"""Relative name and size in bytes of each file."""

MAX_MESSAGE_BYTES = 4 << 20
"""The longest message: an OFFER of many files with long names."""
MAX_ADDRESSES = 4
MAX_PAUSE_S = 60.0
_PORTS = range(0x10000)
_CRCS = range(1 << 32)
_SHOWN = 60


def _read_part(value: Any, path: str) -> KeptPart:
    if not isinstance(value, str):
        raise FrameError(f"{path} is not the text of a part")
    return KeptPart.parse(value)


def _read_files(value: Any, path: str) -> FileList:
    if not isinstance(value, list) or len(value) > FILE_LIMIT:
        raise FrameError(f"{path} is not a list of at most {FILE_LIMIT} files")
    for item in value:
        match item:
            case [str(), int()] if not isinstance(item[1], bool):
                continue
        raise FrameError(f"{path} has an item that is not a name and a size: {str(item)[:_SHOWN]}")
    return tuple((name, size) for name, size in value)


def _read_addresses(value: Any, path: str) -> tuple[Address, ...]:
    if not isinstance(value, list) or len(value) > MAX_ADDRESSES:
        raise FrameError(f"{path} is not a list of at most {MAX_ADDRESSES} addresses")
    found = [parse_address(text) if isinstance(text, str) and len(text) <= _SHOWN else None for text in value]
    if None in found:
        raise FrameError(f"{path} has an item that is no address")
    return tuple(address for address in found if address is not None)


def _read_lineage(value: Any, path: str) -> Lineage:
    if not isinstance(value, str):
        raise FrameError(f"{path} is not the text of a lineage")
    return Lineage.parse(value)


_PART = codec.with_codec(str, _read_part)
_LINEAGE = codec.with_codec(str, _read_lineage)
_FILES = codec.with_codec(lambda files: [list(item) for item in files], _read_files)
_ADDRESSES = codec.with_codec(lambda addresses: [str(address) for address in addresses], _read_addresses)


@dataclass(frozen=True, slots=True)
class Offer:
    """The sender has this part, with these files."""

    part: KeptPart = field(metadata=_PART)
    files: FileList = field(metadata=_FILES)
    sender: Lineage | None = field(default=None, metadata=_LINEAGE)
    """The round whose workers the sender runs; None from a holder, which answers a GET."""

    def __post_init__(self) -> None:
        """Raise FrameError for files that no part can have."""
        try:
            check_files(self.files)
        except PartRefused as error:
            raise FrameError(str(error)) from error

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(size for _, size in self.files)


@dataclass(frozen=True, slots=True)
class Get:
    """The fetcher wants this part; its own listener has this port, 0 for none."""

    part: KeptPart = field(metadata=_PART)
    port: int = 0

    def __post_init__(self) -> None:
        """Raise FrameError for no port."""
        if self.port not in _PORTS:
            raise FrameError(f"GET with port {self.port}")


@dataclass(frozen=True, slots=True)
class Want:
    """The receiver wants each file from this offset on; an offset at the end means that nothing is missing."""

    offsets: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise FrameError for too many offsets or a negative one."""
        if len(self.offsets) > FILE_LIMIT or any(offset < 0 for offset in self.offsets):
            raise FrameError("WANT with offsets of no part")


@dataclass(frozen=True, slots=True)
class Sums:
    """The CRC-32 of each whole file; an older keeper has None if TLS has protected the bytes."""

    crcs: tuple[int | None, ...]

    def __post_init__(self) -> None:
        """Raise FrameError for too many, or for one that is no CRC-32."""
        if len(self.crcs) > FILE_LIMIT or any(crc is not None and crc not in _CRCS for crc in self.crcs):
            raise FrameError("SUMS with values that are no CRC-32")


@dataclass(frozen=True, slots=True)
class Have:
    """The receiver has the part whole."""


@dataclass(frozen=True, slots=True)
class Bad:
    """These files, by number, arrived with other bytes; the receiver has dropped them."""

    files: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise FrameError for a number that no part has."""
        if len(self.files) > FILE_LIMIT or any(number not in range(FILE_LIMIT) for number in self.files):
            raise FrameError("BAD with numbers of no files")


@dataclass(frozen=True, slots=True)
class Later:
    """The receiver cannot take the part now; try again after so many seconds."""

    pause_s: float

    def __post_init__(self) -> None:
        """Raise FrameError for a pause that is negative, or longer than any that is meant."""
        if not (math.isfinite(self.pause_s) and 0 <= self.pause_s <= MAX_PAUSE_S):
            raise FrameError(f"LATER with a pause of {self.pause_s} s")


@dataclass(frozen=True, slots=True)
class Full:
    """The receiver has no room."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The present training does not descend from this step."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The holder serves enough fetchers; these keepers have just got the part from it."""

    addresses: tuple[Address, ...] = field(metadata=_ADDRESSES)


@dataclass(frozen=True, slots=True)
class NoPart:
    """The holder does not have the part."""


Message = Offer | Get | Want | Sums | Have | Bad | Later | Full | Dead | Busy | NoPart

_WORDS: Mapping[bytes, type[Message]] = {
    b"OFFER": Offer,
    b"GET": Get,
    b"WANT": Want,
    b"SUMS": Sums,
    b"HAVE": Have,
    b"BAD": Bad,
    b"LATER": Later,
    b"FULL": Full,
    b"DEAD": Dead,
    b"BUSY": Busy,
    b"NONE": NoPart,
}
_WORD_OF = {kind: word for word, kind in _WORDS.items()}


def encode(message: Message) -> bytes:
    """Return the message as one line of ASCII without its end; raise FrameError if it is too long."""
    data = _WORD_OF[type(message)] + b" " + json.dumps(codec.write(message), separators=(",", ":")).encode("ascii")
    if len(data) > MAX_MESSAGE_BYTES:
        raise FrameError(f"a message of {len(data)} bytes; {MAX_MESSAGE_BYTES} are the most")
    return data


def decode(data: bytes) -> Message:
    """Return the message in `data`; raise FrameError for anything that no keeper of this version would send.

    Fields that a newer version has added are ignored.
    """
    word, _, text = data.partition(b" ")
    kind = _WORDS.get(word)
    if kind is None or len(data) > MAX_MESSAGE_BYTES:
        raise FrameError(f"not a message of a keeper: {data[:_SHOWN]!r}")
    try:
        value = json.loads(text.decode("ascii"), parse_constant=refuse_constant)
        return codec.read_known(kind, value)
    except (ContractError, ValueError, RecursionError) as error:
        raise FrameError(f"{word.decode()} with a value that no keeper sends: {str(error)[:_SHOWN]}") from error


def refuse_constant(text: str) -> None:
    """Raise FrameError: for `NaN` and `Infinity`, which JSON does not have."""
    raise FrameError(f"{text} is not a number of JSON")
