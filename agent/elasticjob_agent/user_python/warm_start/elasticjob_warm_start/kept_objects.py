"""Give back what imports have kept of ours: each function or dict that was in the place of another one.

An import may keep it anywhere, for example as a default argument, in an object or in a tuple. All objects are looked at
once. Where something cannot change, such as a tuple, a new one takes its place in one more look.

Nothing here calls code of the user: no method, property, comparison or hash of a foreign class.
"""

import collections
import contextlib
import functools
import gc
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MAX_LOOKS = 4
"""Tuples within tuples need one look for each."""
_METHODS = frozenset({types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType})
_MEMBERS = frozenset({types.GetSetDescriptorType, types.MemberDescriptorType})
_MRO: "Any" = type.__dict__["__mro__"]
_DICT: "Any" = type.__dict__["__dict__"]


def give_back(pairs: "list[tuple[object, object]]") -> "list[object]":
    """Put the second of each pair wherever the first is kept; return the objects in which that cannot be done."""
    left: "list[object]" = []
    names: "dict[int, list[str]]" = {}
    for _ in range(_MAX_LOOKS):
        change = _Change(pairs, names)
        left += change.apply({id(pairs), *map(id, pairs)})
        pairs, names = change.rebuilt, change.names
        if not pairs:
            return left
    return left + [old for old, new in pairs if old is not new]


class _Change:
    """One look at all objects, which changes those that keep the first of a pair."""

    def __init__(self, pairs: "list[tuple[Any, Any]]", names: "dict[int, list[str]]") -> None:
        """`names` are those that have changed in the dict of a class, by its id; the dict itself is in a pair."""
        self._old = tuple([old for old, _ in pairs])
        self._new = {id(old): new for old, new in pairs}
        self._unwanted = {id(old) for old, new in pairs if old is not new}
        self._changed = names
        self.names: "dict[int, list[str]]" = {}
        """The same for the next look."""
        self.rebuilt: "list[tuple[Any, Any]]" = []
        """Objects that cannot change, each with a new one; and dicts whose class does not know of the change."""

    def apply(self, skipped: "set[int]") -> "list[object]":
        """Change all but the objects with these ids; return those that could not be changed."""
        left: "list[object]" = []
        skipped.add(id(self._old))
        for holder in gc.get_referrers(*self._old):
            if id(holder) in skipped or type(holder) is types.FrameType:
                continue
            count = len(self.rebuilt)
            self._change(holder)
            is_rebuilt = len(self.rebuilt) > count and self.rebuilt[-1][0] is not self.rebuilt[-1][1]
            if not is_rebuilt and not self._unwanted.isdisjoint(map(id, gc.get_referents(holder))):
                left.append(holder)
        return left

    def _new_of(self, value: object) -> "Any":
        return self._new.get(id(value), value)

    def _change(self, holder: "Any") -> None:
        kind = type(holder)
        if kind is tuple:
            self.rebuilt.append((holder, tuple(map(self._new_of, holder))))
        elif kind is frozenset:
            rest = set(holder)
            self._change_set(rest)
            self.rebuilt.append((holder, frozenset(rest)))
        elif kind in _METHODS:
            self._rebuild_method(holder)
        elif kind is types.CellType:
            holder.cell_contents = self._new_of(holder.cell_contents)
        elif kind is types.FunctionType:
            holder.__defaults__ = self._new_of(holder.__defaults__)
        elif kind in {staticmethod, classmethod}:
            kind.__init__(holder, self._new_of(holder.__func__))
        elif kind is functools.partial:
            state = (self._new_of(holder.func), self._new_of(holder.args), holder.keywords, holder.__dict__)
            holder.__setstate__(state)
        elif issubclass(kind, type):
            self._tell_class(holder)
        else:
            self._change_content(holder)

    def _rebuild_method(self, method: "Any") -> None:
        """Record the same method of the other object, or the other function as a method."""
        if id(method.__self__) in self._new:
            with contextlib.suppress(AttributeError):
                self.rebuilt.append((method, getattr(self._new_of(method.__self__), method.__name__)))
        elif type(method) is types.MethodType:
            self.rebuilt.append((method, types.MethodType(self._new_of(method.__func__), method.__self__)))

    def _change_content(self, holder: "Any") -> None:
        kind = type(holder)
        if issubclass(kind, dict):
            self._change_dict(holder)
        elif issubclass(kind, list):
            for index in range(list.__len__(holder)):
                list.__setitem__(holder, index, self._new_of(list.__getitem__(holder, index)))
        elif issubclass(kind, set):
            self._change_set(holder)
        if kind not in {dict, list, set}:
            self._change_attributes(holder)

    def _change_dict(self, holder: "Any") -> None:
        found = [(key, self._new[id(value)]) for key, value in dict.items(holder) if id(value) in self._new]
        found = [(key, value) for key, value in found if _has_plain_hash(key)]
        for key, value in found:
            dict.__setitem__(holder, key, value)
        if not self._unwanted.isdisjoint(map(id, dict.keys(holder))):
            self._change_keys(holder)
        # The dict of a class: Python keeps what it has found in it, until the class itself is changed.
        if found and dict.__contains__(holder, "__module__"):
            self.names[id(holder)] = [key for key, _ in found if type(key) is str]
            self.rebuilt.append((holder, holder))

    def _change_keys(self, holder: "Any") -> None:
        """Put the other keys at the same places; in an OrderedDict, or among keys with a hash of their own, none."""
        items = list(dict.items(holder))
        first = min(index for index, (key, _) in enumerate(items) if id(key) in self._unwanted)
        rest = items[first:]
        if issubclass(type(holder), collections.OrderedDict) or not all(_has_plain_hash(key) for key, _ in rest):
            return
        for key, _ in rest:
            dict.__delitem__(holder, key)
        for key, value in rest:
            dict.__setitem__(holder, self._new_of(key), value)

    def _change_set(self, holder: "Any") -> None:
        for value in [value for value in set.__iter__(holder) if id(value) in self._unwanted]:
            if _has_plain_hash(value):
                set.discard(holder, value)
                set.add(holder, self._new_of(value))

    def _tell_class(self, holder: type) -> None:
        names = _DICT.__get__(holder)
        changed = [name for each in gc.get_referents(names) for name in self._changed.get(id(each), ())]
        for name in changed:
            with contextlib.suppress(TypeError, AttributeError):  # a class of C that cannot change
                type.__setattr__(holder, name, names[name])

    def _change_attributes(self, holder: "Any") -> None:
        for name, member in _members(type(holder)):
            # Python 3.11 makes the dict of an object when it is asked for.
            with contextlib.suppress(AttributeError, TypeError):
                value = member.__get__(holder)
                if name == "__dict__" and issubclass(type(value), dict):
                    self._change_dict(value)
                elif id(value) in self._new:
                    member.__set__(holder, self._new[id(value)])


def _has_plain_hash(key: object) -> bool:
    """Whether the hash of this key comes from C, and asks no other object."""
    kind = type(key)
    if issubclass(kind, (tuple, frozenset)):
        return False
    found = (_DICT.__get__(each).get("__hash__") for each in _MRO.__get__(kind))
    return type(next(each for each in found if each is not None)) is types.WrapperDescriptorType


def _members(kind: type) -> "Iterator[tuple[str, Any]]":
    """Return the slots of the objects of this class, and what gives their dict."""
    for each in _MRO.__get__(kind):
        for name, value in _DICT.__get__(each).items():
            if type(value) is types.MemberDescriptorType or (name == "__dict__" and type(value) in _MEMBERS):
                yield name, value
