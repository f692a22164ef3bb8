"""Values of variables as a loop over all variables gets them, or a copy of all: each records that it is used.

A loop may leave out names, and use all the others. Then no comparison of a name is true, but the values are used.
"""

from .callers import calling_package
from .noted_uses import is_for_child, note_uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, ClassVar

    from .listed_names import NameState


class _AnyValue:
    """The methods of a listed value. Whether it is empty is no use: `urllib` asks this of each variable."""

    kind: "ClassVar[Any]"
    state: "NameState"

    @classmethod
    def of(cls, value: "Any", state: "NameState") -> "Any":
        """Return this value of the name that has this state."""
        listed: "Any" = cls.kind.__new__(cls, value)
        listed.state = state
        state.record.kept_values += 1
        return listed

    def __del__(self) -> None:
        self.state.record.kept_values -= 1

    def note_use(self, frame: "FrameType") -> None:
        """Record that this code uses the value."""
        if not is_for_child(frame):
            self.state.note_value(calling_package(frame))

    def __bool__(self) -> bool:
        return bool(self.kind.__len__(self))

    # int() and float() look for these first, and str() + value for the third.
    def __int__(self) -> int:
        return int(self._plain())

    def __float__(self) -> float:
        return float(self._plain())

    def __radd__(self, other: "Any") -> "Any":
        return other + self._plain()

    def __reduce_ex__(self, protocol: "Any") -> "tuple[type, tuple[Any]]":
        return self.kind, (self._plain(),)

    def _plain(self) -> "Any":
        return self[:]  # type: ignore[index]


class ListedValue(_AnyValue, bytes):
    """The value as the system has it."""

    kind = bytes

    def decode(self, *arguments: "Any", **options: "Any") -> str:
        """Return the value as a text, as `os.environ` has it."""
        return ListedValueText.of(super().decode(*arguments, **options), self.state)  # type: ignore[no-any-return]


class ListedValueText(_AnyValue, str):  # noqa: SLOT000 - a value has the attribute `state`
    """The value as a text."""

    kind = str


for _each in (ListedValue, ListedValueText):
    note_uses(_each)
