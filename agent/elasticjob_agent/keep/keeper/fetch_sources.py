"""The holders of the parts of a step, as texts of a FetchRequest. No I/O."""

from collections.abc import Mapping, Sequence

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.rendezvous.protocol.link_handshake import Address, parse_address
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import format_parts, parse_parts


def encode_sources(sources: Mapping[int, Sequence[Address]]) -> dict[str, tuple[str, ...]]:
    """Return the holders of each part as texts; parts with the same holders share a text."""
    parts: dict[tuple[str, ...], list[int]] = {}
    for index, addresses in sources.items():
        parts.setdefault(tuple(map(str, addresses)), []).append(index)
    return {format_parts(indices): addresses for addresses, indices in parts.items()}


def decode_sources(texts: Mapping[str, tuple[str, ...]], parts: int) -> dict[int, tuple[Address, ...]]:
    """Return the holders of each part of a step of so many; raise ControlError."""
    found: dict[int, tuple[Address, ...]] = {}
    try:
        for indices, words in texts.items():
            addresses = tuple(address for word in words if (address := parse_address(word)))
            found.update(dict.fromkeys(parse_parts(indices, parts), addresses))
    except RecordError as error:
        raise ControlError(f"these are no sources: {error}") from error
    return found
