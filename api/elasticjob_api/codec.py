"""JSON values ↔ frozen dataclasses, with the path of the field in every error.

One reader serves manifests and etcd records. Field names follow a rule, so no name is written twice. `min_replicas`
is `minReplicas`, and the suffix `_s` of a duration is `Seconds` (`join_timeout_s` is `joinTimeoutSeconds`). Supported:
bool, int, float, str, None, enums, Literal, unions, tuple[T, ...], Mapping[str, T], dataclasses, and Any (passed
through untouched: pod templates). A field may have a codec of its own (`with_codec`).

There are three ways to read. `read` is strict: an unknown field is an error, because it may be a typo. `read_known` is
for values that a newer version may have written: it ignores unknown fields. `read_what_fits` also drops broken values.
The last two report the path of everything that they leave out.
"""

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from elasticjob_api.errors import CodecError, UnknownValue

T = TypeVar("T")

_INT_LIMIT = 1 << 63


@functools.cache
def json_name(field_name: str) -> str:
    """Return the CRD's spelling of a dataclass field."""
    stem = field_name.removesuffix("_s") + ("_seconds" if field_name.endswith("_s") else "")
    head, *rest = stem.split("_")
    return head + "".join(part.capitalize() for part in rest)


@dataclasses.dataclass(frozen=True, slots=True)
class _Mode:
    """How tolerant a reader is, and the paths that it left out."""

    tolerant: bool = False
    """Ignore unknown fields. A field with a default takes it if its value is not a known choice."""
    salvaging: bool = False
    """A field with a default takes its default if its value is broken; a broken item of a list or a map is dropped."""
    ignored: list[str] = dataclasses.field(default_factory=list)

    def forgives(self, error: CodecError) -> bool:
        """Whether a field with a default may take it instead of the value that has this error."""
        return self.salvaging or (self.tolerant and isinstance(error, UnknownValue))


_STRICT = _Mode()

Reader = Callable[[Any, str, _Mode], Any]
"""(parsed JSON value, its path, mode) → the value in Python."""

_WRITE, _READ, _NAME = "json write", "json read", "json name"


def named(name: str) -> Mapping[str, Any]:
    """Return the metadata of a dataclass field whose JSON name does not follow from its Python name."""
    return {_NAME: name}


def _name_of(field: "dataclasses.Field[Any]") -> str:
    return str(field.metadata.get(_NAME) or json_name(field.name))


def with_codec(write: Callable[[Any], Any], read: Callable[[Any, str], Any]) -> Mapping[str, Any]:
    """Return the metadata of a dataclass field whose JSON form is not that of its type."""
    return {_WRITE: write, _READ: lambda value, path, _mode: read(value, path)}


@functools.cache
def _fields(cls: type) -> dict[str, tuple[str, Reader]]:
    """Return JSON name → (field name, reader) of a dataclass."""
    hints = typing.get_type_hints(cls)
    return {
        _name_of(field): (field.name, field.metadata.get(_READ) or _reader(hints[field.name]))
        for field in dataclasses.fields(cls)
    }


def read(cls: type[T], value: Any, path: str = "") -> T:
    """Return a `cls` from a parsed JSON value; raise `CodecError` that names the field, the cause and the cure."""
    return typing.cast("T", _read(cls, value, path, _STRICT))


def read_known(cls: type[T], value: Any, path: str = "", ignored: list[str] | None = None) -> T:
    """Return a `cls` from a value that a newer version may have written, without the fields that this version ignores.

    Append the path of each ignored field to `ignored`. Raise `CodecError` for a value that no version would write.
    """
    return typing.cast("T", _read(cls, value, path, _Mode(tolerant=True, ignored=_list(ignored))))


def read_what_fits(cls: type[T], value: Any, path: str = "", ignored: list[str] | None = None) -> T:
    """As `read_known`, but drop broken values; raise `CodecError` only if a required field of `cls` is broken."""
    return typing.cast("T", _read(cls, value, path, _Mode(tolerant=True, salvaging=True, ignored=_list(ignored))))


def _read(hint: Any, value: Any, path: str, mode: _Mode) -> Any:
    return _reader(hint)(value, path, mode)


def _list(ignored: list[str] | None) -> list[str]:
    return [] if ignored is None else ignored


@functools.cache
def _reader(hint: Any) -> Reader:
    """Return the reader of a type. It is cached, because an operator reads thousands of records."""
    if hint is Any:
        return _identity
    if dataclasses.is_dataclass(hint):
        return functools.partial(_read_dataclass, typing.cast("type", hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return functools.partial(_read_enum, hint, tuple(member.value for member in hint))
    if origin := typing.get_origin(hint):
        return _generic_reader(origin, typing.get_args(hint))
    return functools.partial(_read_scalar, hint)


def _generic_reader(origin: Any, args: tuple[Any, ...]) -> Reader:
    if origin in {types.UnionType, typing.Union}:
        return functools.partial(_read_union, args)
    if origin is typing.Literal:
        return functools.partial(_read_choice, args)
    if origin is tuple:
        return functools.partial(_read_tuple, args[0])
    return functools.partial(_read_mapping, args[1])


def _identity(value: Any, _path: str, _mode: _Mode) -> Any:
    return value


def _read_enum(hint: type[Enum], choices: tuple[Any, ...], value: Any, path: str, mode: _Mode) -> Any:
    if mode.tolerant and isinstance(value, str) and value not in choices and (other := _fallback(hint, value)):
        mode.ignored.append(path)
        return other
    return hint(_read_choice(choices, value, path, mode))


def _fallback(hint: type[Enum], value: str) -> Enum | None:
    """Return the enum's own default for an unknown value (`_missing_`), or None."""
    try:
        return hint(value)
    except ValueError:
        return None


def _read_dataclass(cls: type, value: Any, path: str, mode: _Mode) -> Any:
    _expect(value, dict, "an object", path)
    known, required, given = _fields(cls), _required(cls), dict[str, Any]()
    for name, item in value.items():
        where = _join(path, str(name))
        if name not in known:
            _note_unknown(str(name), where, known, mode)
            continue
        field, read_item = known[name]
        try:
            given[field] = read_item(item, where, mode)
        except CodecError as error:
            if field in required or not mode.forgives(error):
                raise
            mode.ignored.append(error.path)
    if missing := required.difference(given):
        first = next(name for name, (field_name, _) in known.items() if field_name in missing)
        raise CodecError(_join(path, first), "is required")
    return cls(**given)


def _note_unknown(name: str, path: str, known: Mapping[str, Any], mode: _Mode) -> None:
    if not mode.tolerant:
        raise CodecError(path, f"unknown field{_suggestion(name, known)}")
    mode.ignored.append(path)


@functools.cache
def _required(cls: type) -> frozenset[str]:
    missing = dataclasses.MISSING
    return frozenset(f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing)


def _read_union(hints: tuple[Any, ...], value: Any, path: str, mode: _Mode) -> Any:
    if value is None and type(None) in hints:
        return None
    choices = [hint for hint in hints if hint is not type(None)]
    for hint in choices[:-1]:
        try:
            return _reader(hint)(value, path, mode)
        except CodecError:
            continue
    return _reader(choices[-1])(value, path, mode)


def _read_tuple(hint: Any, value: Any, path: str, mode: _Mode) -> tuple[Any, ...]:
    _expect(value, list, "a list", path)
    read_item = _reader(hint)
    if not mode.salvaging:
        return tuple([read_item(item, f"{path}[{i}]", mode) for i, item in enumerate(value)])
    return tuple(_salvage(read_item, [(f"{path}[{i}]", item) for i, item in enumerate(value)], mode).values())


def _read_mapping(hint: Any, value: Any, path: str, mode: _Mode) -> dict[str, Any]:
    _expect(value, dict, "an object", path)
    read_item = _reader(hint)
    if not mode.salvaging:
        return {str(name): read_item(item, _join(path, str(name)), mode) for name, item in value.items()}
    names = {_join(path, str(name)): str(name) for name in value}
    items = [(_join(path, str(name)), item) for name, item in value.items()]
    return {names[where]: item for where, item in _salvage(read_item, items, mode).items()}


def _salvage(read_item: Reader, items: list[tuple[str, Any]], mode: _Mode) -> dict[str, Any]:
    """Return path → item for the items that can be read."""
    readable = {}
    for path, item in items:
        try:
            readable[path] = read_item(item, path, mode)
        except CodecError as error:
            mode.ignored.append(error.path)
    return readable


def _read_choice(choices: tuple[Any, ...], value: Any, path: str, _mode: _Mode) -> Any:
    if value not in choices:
        names = ", ".join(str(choice) for choice in choices)
        kind = UnknownValue if isinstance(value, str) else CodecError
        raise kind(path, f"{value!r} is not one of {names}{_quotes_needed(choices, value)}")
    return value


_YAML_WORDS = {True: ("On", "Yes"), False: ("Off", "No")}
"""Words that YAML 1.1 reads as true or false where they have no quotes."""


def _quotes_needed(choices: tuple[Any, ...], value: Any) -> str:
    """Return the cure for a choice that YAML has turned into true or false; empty for any other value."""
    word = next((word for word in _YAML_WORDS[value] if word in choices), "") if isinstance(value, bool) else ""
    return f'; YAML reads {word} without quotes as {str(value).lower()}: write "{word}"' if word else ""


_WORDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def _read_scalar(hint: type, value: Any, path: str, _mode: _Mode) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        _expect_storable(value, path)
        return float(value)
    if isinstance(value, bool) and hint is not bool:
        raise CodecError(path, f"{value!r} is not {_WORDS[hint]}")
    _expect(value, hint, _WORDS[hint], path)
    _expect_storable(value, path)
    return value


def _expect_storable(value: Any, path: str) -> None:
    """Raise `CodecError` for values that only Python's JSON can store: huge and infinite numbers, lone surrogates."""
    if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:
        raise CodecError(path, f"{value!r:.60} has more than 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise CodecError(path, f"{value!r} is not a finite number")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise CodecError(path, f"{value!r:.60} is not a text: it has half of a surrogate pair")


def _expect(value: Any, kind: type, words: str, path: str) -> None:
    if not isinstance(value, kind):
        shown = f"{value!r:.60}"
        raise CodecError(path, f"{shown} is not {words}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _suggestion(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f" (known: {', '.join(sorted(known))})"


_PLAIN_TYPES = frozenset({str, int, bool, type(None)})
"""Types that JSON writes as they are."""


def write(value: Any, *, keep_defaults: bool = False) -> Any:
    """Return the JSON value of a dataclass (recursively), without fields at their default unless `keep_defaults`."""
    if type(value) in _PLAIN_TYPES:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _write_dataclass(value, keep_defaults=keep_defaults)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [write(item, keep_defaults=keep_defaults) for item in value]
    if isinstance(value, Mapping):
        return {name: write(item, keep_defaults=keep_defaults) for name, item in value.items()}
    # A larger one stays a float: readers refuse an integer with more than 64 bits.
    is_short = isinstance(value, float) and value.is_integer() and abs(value) < _INT_LIMIT
    return int(value) if is_short else value


def _write_dataclass(value: Any, *, keep_defaults: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    cls: type = type(value)
    for name, field in _written_fields(cls):
        item = getattr(value, field.name)
        if item is None or (not keep_defaults and _is_default(field, item)):
            continue
        packs = field.metadata.get(_WRITE)
        plain = packs(item) if packs else item
        out[name] = plain if type(plain) in _PLAIN_TYPES else write(plain, keep_defaults=keep_defaults)
    return out


@functools.cache
def _written_fields(cls: type) -> tuple[tuple[str, "dataclasses.Field[Any]"], ...]:
    """Return JSON name and field of a dataclass, in order."""
    return tuple((_name_of(field), field) for field in dataclasses.fields(cls))


def _is_default(field: "dataclasses.Field[Any]", item: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(item == field.default)
    return field.default_factory is not dataclasses.MISSING and bool(item == field.default_factory())
