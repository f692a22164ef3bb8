"""Names of variables as a loop over all variables gets them, or a copy of all: each records what it is used for.

A package that looks for its own variables compares each name with something. If a comparison is true, the package has
read that variable. If all are false, it has not. Any other use may read all variables, for example a kept copy or a
digest. Of a variable whose name is compared, the value may still be used: see listed_values.py.
"""

import opcode
import sys

from .callers import calling_package
from .noted_uses import is_for_child, is_for_lookup, note_uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, ClassVar


_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_COMPARISONS = [opcode.opmap[name] for name in ("COMPARE_OP", "CONTAINS_OP") if name in opcode.opmap]


class NameRecord:
    """The record of one name in all loops of one package."""

    def __init__(self, variable: bytes, note_read: "Callable[[bytes, str], None]") -> None:
        """`note_read` is called with the variable and the package for which a comparison was true."""
        self.variable = variable
        self.note_read = note_read
        self.not_compared = 0
        """Number of loops in which the name was not compared."""
        self.kept = 0
        """Number of its names that exist."""
        self.is_used = False
        """Whether a name was used for more than a comparison, before one was true."""
        self.kept_values = 0
        """Number of its values that exist."""
        self.value_users: "set[str]" = set()
        """The packages that have used a value before a comparison of the name was true."""

    @property
    def may_be_read(self) -> bool:
        """Whether the package may have read the variable in another way: it has kept or used the name, not compared."""
        return self.is_used or self.kept > 0 or self.not_compared > 0

    def value_readers(self, package: str) -> "set[str]":
        """Return the packages that have used the value; `package` has made the loops."""
        readers = {*self.value_users, package} if self.kept_values else self.value_users
        return readers - {package} if self.may_be_read else readers  # it counts as one that reads all


class NameState:
    """The state of one name in one loop."""

    def __init__(self, record: NameRecord) -> None:
        self.record = record
        self._is_compared = False
        self._is_hit = False
        record.not_compared += 1

    def note(self, *, is_hit: bool) -> None:
        """Record the result of a comparison."""
        if not self._is_compared:
            self._is_compared = True
            self.record.not_compared -= 1
        if is_hit:
            self._is_hit = True
            self.record.note_read(self.record.variable, calling_package(sys._getframe(2)))

    def note_use(self) -> None:
        """Record a use of the name other than a comparison."""
        self.record.is_used = self.record.is_used or not self._is_hit

    def note_value(self, package: str) -> None:
        """Record that this package uses the value."""
        if not self._is_hit:
            self.record.value_users.add(package)


class _AnyName:
    """The methods of a listed name. One of a single letter, which is a part of a name, decides nothing."""

    kind: "ClassVar[Any]"
    state: NameState

    @classmethod
    def of(cls, name: "Any", state: NameState) -> "Any":
        """Return this name, or a part of it, with the state of the name."""
        listed: "Any" = cls.kind.__new__(cls, name)
        listed.state = state
        state.record.kept += 1
        return listed

    def __del__(self) -> None:
        self.state.record.kept -= 1

    def note_use(self, frame: "FrameType") -> None:
        """Record that this code uses the name."""
        if not is_for_child(frame):
            self.state.note_use()

    def __eq__(self, other: object) -> bool:
        is_same: bool = self.kind.__eq__(self, other)
        if is_same is True and (self.kind.__len__(self) > 1 or len(self.state.record.variable) == 1):
            self.state.note(is_hit=True)
        elif is_same is False and _is_comparison(sys._getframe(1)):
            self.state.note(is_hit=False)
        return is_same

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self.kind.__hash__(self)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        self.state.note(is_hit=False)
        return self.kind.__len__(self)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return bool(self.kind.__len__(self))

    def __contains__(self, part: "Any") -> bool:
        return self._noted(self.kind.__contains__(self, part))

    def startswith(self, *arguments: "Any") -> bool:
        """Compare the begin of the name."""
        return self._noted(self.kind.startswith(self, *arguments))

    def endswith(self, *arguments: "Any") -> bool:
        """Compare the end of the name."""
        return self._noted(self.kind.endswith(self, *arguments))

    def lower(self) -> "Any":
        """Return the name in small letters."""
        return self.of(self.kind.lower(self), self.state)

    def upper(self) -> "Any":
        """Return the name in capital letters."""
        return self.of(self.kind.upper(self), self.state)

    def __getitem__(self, place: "Any") -> "Any":
        part = self.kind.__getitem__(self, place)
        return part if isinstance(part, int) else self.of(part, self.state)

    def __radd__(self, other: "Any") -> "Any":
        self.note_use(sys._getframe(1))
        return other + self._plain()

    def __reduce__(self) -> "tuple[type, tuple[Any]]":
        return self.kind, (self._plain(),)

    def _plain(self) -> "Any":
        return self.kind.__getitem__(self, slice(None))

    def _noted(self, is_hit: "Any") -> bool:
        self.state.note(is_hit=bool(is_hit))
        return bool(is_hit)


def _is_comparison(frame: "FrameType") -> bool:
    """Whether this code compares two values, or looks into a list; to sort names also compares them."""
    return frame.f_code.co_code[frame.f_lasti] in _COMPARISONS


class ListedName(_AnyName, bytes):
    """The name as the system has it."""

    kind = bytes

    def decode(self, *arguments: "Any", **options: "Any") -> str:
        """Return the name as a text, as `os.environ` has it."""
        return ListedText.of(super().decode(*arguments, **options), self.state)  # type: ignore[no-any-return]


class ListedText(_AnyName, str):  # noqa: SLOT000 - a name has the attribute `state`
    """The name as a text, or a part of it."""

    kind = str

    def encode(self, *arguments: "Any", **options: "Any") -> bytes:
        """Return the name as the system has it, with which `os.environ` looks up its value."""
        frame = sys._getframe(1)
        if not is_for_lookup(frame):
            self.note_use(frame)
        return ListedName.of(super().encode(*arguments, **options), self.state)  # type: ignore[no-any-return]


def plain_name(key: bytes) -> bytes:
    """Return the name itself: to look a listed one up compares it."""
    return key.state.record.variable if isinstance(key, ListedName) else key


for _each in (ListedName, ListedText):
    note_uses(_each, _ORDER)  # to sort names is no use
