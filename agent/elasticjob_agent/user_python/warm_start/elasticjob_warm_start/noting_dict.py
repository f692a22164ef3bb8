"""The data of `os.environ`, which can call a function for each change.

This module imports nothing; see entry.py.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class NotingDict(dict):  # type: ignore[type-arg]
    """A dict that calls `note` with the name of a variable which gets another value, or none any more."""

    note: "Callable[[bytes], None] | None" = None

    def __setitem__(self, key: bytes, value: bytes) -> None:
        is_changed = dict.get(self, key) != value
        dict.__setitem__(self, key, value)
        if is_changed:
            self._note(key)

    def __delitem__(self, key: bytes) -> None:
        dict.__delitem__(self, key)
        self._note(key)

    def __reduce_ex__(self, protocol: object) -> "tuple[type, tuple[dict[bytes, bytes]]]":
        return dict, (dict(self),)

    def _note(self, key: bytes) -> None:
        if self.note is not None:
            try:
                self.note(key)
            except Exception:  # noqa: BLE001 - never an error in a script that sets a variable
                return
