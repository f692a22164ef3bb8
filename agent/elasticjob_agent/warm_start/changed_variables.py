"""The variables that warm workers change; see user_python/warm_start/elasticjob_warm_start/changed_variables.py.

Any code of the user may write to this memory.
"""

import os

_SLOT_BYTES = 1 << 10
_SLOTS = 256
_MAX_NAME = 200
_MORE = b"="
UNNOTED = "more variables than can be noted"
"""In the place of the names that a worker had no room for."""


class ChangedVariables:
    """A memory file with a slot for each worker of a node."""

    def __init__(self) -> None:
        """Raise OSError if there is no descriptor or memory left."""
        self.fd = os.memfd_create("variables")
        os.ftruncate(self.fd, _SLOTS * _SLOT_BYTES)

    def read(self) -> list[str]:
        """Return the names in all slots, without those that cannot be shown; the last may be `UNNOTED`."""
        data = os.pread(self.fd, _SLOTS * _SLOT_BYTES, 0)
        slots = (data[begin : begin + _SLOT_BYTES] for begin in range(0, len(data), _SLOT_BYTES))
        lines = (line for slot in slots for line in slot.partition(b"\0")[0].split(b"\n"))
        found = dict.fromkeys(filter(None, lines))
        names = [os.fsdecode(line) for line in found if line != _MORE]
        names = [name for name in names if name.isprintable() and len(name) <= _MAX_NAME]
        return [*names, *([UNNOTED] if _MORE in found else [])]

    def forget(self) -> None:
        """Empty all slots; a worker that is alive may still note names."""
        os.pwrite(self.fd, bytes(_SLOTS * _SLOT_BYTES), 0)

    def close(self) -> None:
        """Close the file; the workers keep it."""
        os.close(self.fd)
