"""The variables that warm workers change; see user_python/warm_start/elasticjob_warm_start/changed_variables.py.

Any code of the user may write to this memory.
"""

import os

_SLOT_BYTES = 1 << 10
_SLOTS = 256
_MAX_NAME = 200


class ChangedVariables:
    """A memory file with a slot for each worker of a node."""

    def __init__(self) -> None:
        """Raise OSError if there is no descriptor or memory left."""
        self.fd = os.memfd_create("variables")
        os.ftruncate(self.fd, _SLOTS * _SLOT_BYTES)

    def read(self) -> list[str]:
        """Return the names in all slots, without those that cannot be shown."""
        data = os.pread(self.fd, _SLOTS * _SLOT_BYTES, 0)
        slots = (data[begin : begin + _SLOT_BYTES] for begin in range(0, len(data), _SLOT_BYTES))
        lines = (line for slot in slots for line in slot.partition(b"\0")[0].split(b"\n"))
        names = dict.fromkeys(os.fsdecode(line) for line in lines if line)
        return [name for name in names if name.isprintable() and len(name) <= _MAX_NAME]

    def close(self) -> None:
        """Close the file; the workers keep it."""
        os.close(self.fd)
