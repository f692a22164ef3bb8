"""Ranks of workers, computed from every agent's record.

Agents are in order of their group rank. Global ranks are contiguous per agent over all agents, role ranks over those of
the same role.
"""

import functools
import json
from collections.abc import Sequence


class _RoleInstanceInfo:
    """One agent's record for the others."""

    __slots__ = ["local_world_size", "rank", "role"]

    def __init__(self, role: str, rank: int, local_world_size: int) -> None:
        self.role = role
        self.rank = rank
        self.local_world_size = local_world_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RoleInstanceInfo) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return "_RoleInstanceInfo(role={!r}, rank={}, local_world_size={})".format(*self._fields())

    def _fields(self) -> tuple[str, int, int]:
        return self.role, self.rank, self.local_world_size

    def serialize(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps({"role": self.role, "rank": self.rank, "local_world_size": self.local_world_size}).encode()

    @staticmethod
    def deserialize(data: bytes) -> "_RoleInstanceInfo":
        """Return the record in JSON."""
        return _RoleInstanceInfo(**json.loads(data))

    @staticmethod
    def compare(obj1: "_RoleInstanceInfo", obj2: "_RoleInstanceInfo") -> int:
        """Return a negative number, 0 or a positive one: by role, then by rank."""
        if obj1.role == obj2.role:
            return obj1.rank - obj2.rank
        return 1 if obj1.role > obj2.role else -1

    @staticmethod
    def find_role_boundaries(roles_infos: "Sequence[_RoleInstanceInfo]", role: str) -> tuple[int, int]:
        """Return the first and last index of `role` in a list sorted by role, or (-1, -1) if it is missing."""
        found = [index for index, info in enumerate(roles_infos) if info.role == role]
        return (found[0], found[-1]) if found else (-1, -1)


def get_ranks(
    role_infos: Sequence[_RoleInstanceInfo], role_idx: int, start_idx: int = 0, end_idx: int = -1
) -> tuple[int, list[int]]:
    """Return the number of workers of agents `start_idx` to `end_idx - 1`, and the ranks of agent `role_idx`."""
    end = len(role_infos) if end_idx == -1 else end_idx
    sizes = [info.local_world_size for info in role_infos[start_idx:end]]
    base = sum(sizes[: max(0, role_idx - start_idx)])
    return sum(sizes), list(range(base, base + role_infos[role_idx].local_world_size))


def sorted_by_role(role_infos: Sequence[_RoleInstanceInfo]) -> list[_RoleInstanceInfo]:
    """Return the records sorted by role, then by rank."""
    return sorted(role_infos, key=functools.cmp_to_key(_RoleInstanceInfo.compare))
