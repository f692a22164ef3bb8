"""Names of variables as a loop over all variables gets them: each records a package that looks the variable up later.

A copy of the environment is a dictionary without a watch. A look-up compares the name of the caller with that of the
copy. So does a loop that looks for one variable.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Note = Callable[[object], None]


class ListedName(bytes):
    """The name as the system has it."""

    note: "Note"

    @classmethod
    def of(cls, variable: bytes, note: "Note") -> "ListedName":
        """Return the name of this variable, which calls `note` with it."""
        name = cls(variable)
        name.note = note
        return name

    def decode(self, *arguments: str) -> str:
        """Return the name as a text, as `os.environ` has it."""
        return _DecodedName.of(super().decode(*arguments), bytes(self), self.note)


class _DecodedName(str):  # noqa: SLOT000 - it has two attributes
    """The name as a text, perhaps in small letters."""

    variable: bytes
    note: "Note"

    @classmethod
    def of(cls, text: str, variable: bytes, note: "Note") -> "_DecodedName":
        name = cls(text)
        name.variable, name.note = variable, note
        return name

    def __eq__(self, other: object) -> bool:
        is_same = str.__eq__(self, other)
        if is_same is True:
            self.note(self.variable)
        return is_same

    __hash__ = str.__hash__

    def lower(self) -> str:
        return _DecodedName.of(super().lower(), self.variable, self.note)

    def __reduce__(self) -> "tuple[type, tuple[str]]":
        return str, (str(self),)  # our modules are gone in a worker
