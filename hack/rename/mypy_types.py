"""What mypy's types say of a value: the classes whose attributes it has."""

from mypy.nodes import TypeInfo
from mypy.types import (
    AnyType,
    FunctionLike,
    Instance,
    LiteralType,
    TupleType,
    Type,
    TypedDictType,
    TypeType,
    TypeVarType,
    UnionType,
    get_proper_type,
)


def class_name(kind: Type | None) -> str:
    """Return the full name of the class of a type, None aside; empty if there are several."""
    infos = infos_of(kind)
    return infos[0].fullname if len(infos) == 1 else ""


def infos_of(kind: Type | None) -> list[TypeInfo]:
    """Return the classes whose attributes a value of this type has."""
    proper = get_proper_type(kind) if kind is not None else None
    if isinstance(proper, UnionType):
        return _distinct([info for item in proper.items for info in infos_of(item)])
    if isinstance(proper, TypeVarType):
        if proper.values:
            return _distinct([info for each in proper.values for info in infos_of(each)])
        return infos_of(proper.upper_bound)
    if isinstance(proper, TypeType):
        return infos_of(proper.item)
    if isinstance(proper, FunctionLike) and proper.is_type_obj():
        return [proper.type_object()]
    instance = _instance(proper)
    return [] if instance is None else [instance.type]


def _distinct(infos: list[TypeInfo]) -> list[TypeInfo]:
    return list(dict.fromkeys(infos))


def _instance(proper: Type | None) -> Instance | None:
    """Return the instance that a value of this type is at run time."""
    if isinstance(proper, Instance):
        return proper
    if isinstance(proper, TupleType):
        return proper.partial_fallback
    return proper.fallback if isinstance(proper, (FunctionLike, LiteralType, TypedDictType)) else None


def is_any(kind: Type | None) -> bool:
    """Return True if nothing, or not all, is known of a type."""
    proper = get_proper_type(kind) if kind is not None else None
    if isinstance(proper, UnionType):
        return any(is_any(item) for item in proper.items)
    return kind is None or isinstance(proper, AnyType)
