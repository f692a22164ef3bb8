"""Bytes of a stream, until they are whole lines. No I/O."""

from elasticjob_agent.keep.keeper.errors import ControlError

LINE_LIMIT = 16 << 20
"""The most bytes of a line. Both ends are programs of ours, so this is against a fault, not for use."""


class LineParser:
    """Bytes of a stream, until they are whole lines."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete; raise ControlError if one is too long."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._partial) + lines[0]
            self._partial.clear()
        self._partial += rest
        if len(self._partial) > LINE_LIMIT:
            raise ControlError(f"a line has more than {LINE_LIMIT} bytes")
        return lines
