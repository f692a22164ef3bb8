"""`Std`: a choice of a worker's two streams, and maps of it by local rank."""

import re
from enum import IntFlag

_ONE = re.compile(r"[0-3]")
_MAP = re.compile(r"\d+:[0-3](,\d+:[0-3])*")


class Std(IntFlag):
    """Standard streams: neither, output, errors, or both."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> "Std | dict[int, Std]":
        """Parse `2`, for all ranks, or `0:3,1:2`, by local rank; raise ValueError for anything else."""
        if _ONE.fullmatch(vm):
            return cls(int(vm))
        if _MAP.fullmatch(vm):
            pairs = (pair.split(":") for pair in vm.split(","))
            return {int(rank): cls(int(value)) for rank, value in pairs}
        raise ValueError(
            f"{vm!r} names no streams. It must be one digit from 0 to 3, such as '3', "
            "or a list of local ranks with such digits, such as '0:3,1:2'"
        )


def to_map(val_or_map: "Std | int | dict[int, Std]", local_world_size: int) -> dict[int, Std]:
    """Return the value for each local rank: one for all, or from a map, where missing ranks get `Std.NONE`.

    Raises:
        TypeError: it is neither streams (or an int from 0 to 3) nor a map of them.
    """
    ranks = range(local_world_size)
    if isinstance(val_or_map, dict):
        return {rank: _std(val_or_map.get(rank, Std.NONE)) for rank in ranks}
    return dict.fromkeys(ranks, _std(val_or_map))


def _std(value: object) -> Std:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= Std.ALL:
        return Std(value)
    raise TypeError(f"{value!r} is not one of Std.NONE, Std.OUT, Std.ERR, Std.ALL, or a map from local rank to them")
