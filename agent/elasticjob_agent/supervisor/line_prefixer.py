"""Conversion of bytes from a pipe to whole prefixed lines.

Invariant: every byte is returned once and in order, and each line begins with one prefix. At most `MAX_LINE` bytes are
held back for a line that has not ended. `ConsoleText`, which runs before, decodes the bytes.
"""

import codecs

MAX_LINE = 1 << 20
"""Bytes. A longer line is returned in pieces, each with the prefix and a newline, so that memory stays bounded."""


class LinePrefixer:
    """Cuts one stream into prefixed lines."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        # A bytearray grows in place: a line that arrives a byte at a time must not be copied for each byte.
        self._partial_line = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Add these bytes and return the lines that are now whole, prefixed, or nothing."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._partial_line += data
            return self._cut_pieces()
        self._partial_line += data[:end]
        whole = self._add_prefix(bytes(self._partial_line))
        self._partial_line = bytearray(data[end:])
        return whole

    def flush(self) -> bytes:
        """Return the last line with a newline, if it did not end with one."""
        if not self._partial_line:
            return b""
        rest, self._partial_line = bytes(self._partial_line), bytearray()
        return self._add_prefix(rest + b"\n")

    def _cut_pieces(self) -> bytes:
        pieces = b""
        while len(self._partial_line) >= MAX_LINE:
            pieces += self._add_prefix(bytes(self._partial_line[:MAX_LINE]) + b"\n")
            del self._partial_line[:MAX_LINE]
        return pieces

    def _add_prefix(self, lines: bytes) -> bytes:
        return self._prefix + lines[:-1].replace(b"\n", b"\n" + self._prefix) + b"\n"


class ConsoleText:
    r"""Makes any bytes valid for a console: undecodable ones become U+FFFD; a lone `\r` ends a line, as `\r\n` does."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._after_cr = False

    def feed(self, data: bytes) -> bytes:
        """Add these bytes and return them in a form that can be shown."""
        if not self._after_cr and data.isascii() and b"\r" not in data and not self._decoder.getstate()[0]:
            return data
        return self._to_text(self._decoder.decode(data))

    def flush(self) -> bytes:
        """Return the replacement of an unfinished character at the end."""
        return self._to_text(self._decoder.decode(b"", final=True))

    def _to_text(self, text: str) -> bytes:
        if not text:
            return b""
        if self._after_cr:
            text = text.removeprefix("\n")
        self._after_cr = text.endswith("\r")
        return text.replace("\r\n", "\n").replace("\r", "\n").encode()
