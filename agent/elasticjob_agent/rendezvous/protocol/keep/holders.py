"""How widely a step is held: whether it is whole, and on how many hosts each of its parts is."""

from collections.abc import Iterable, Mapping

from elasticjob_api.kept_steps import Holdings, KeptStep
from elasticjob_api.rendezvous_state import Member

_NONE: frozenset[int] = frozenset()


def is_whole(step: KeptStep, holdings: Iterable[Holdings]) -> bool:
    """Whether each part of this step is in one of these holdings."""
    return len(_find_parts(step, (each.get(step, _NONE) for each in holdings), 1)) == step.parts


def is_safe(step: KeptStep, holdings: Mapping[Member, Holdings], hosts: Mapping[Member, str], copies: int) -> bool:
    """Whether each part of this step is on 1 + `copies` hosts; `hosts` names the host of each member.

    If there are fewer hosts, members count instead; if there are fewer members, each of them holds the step.
    """
    places = _parts_by_place(step, holdings, hosts, copies)
    return bool(places) and len(_find_parts(step, places.values(), min(1 + copies, len(places)))) == step.parts


def _parts_by_place(
    step: KeptStep, holdings: Mapping[Member, Holdings], hosts: Mapping[Member, str], copies: int
) -> Mapping[str, frozenset[int]]:
    """Return the parts on each host; those at each member if there are too few hosts."""
    has_hosts = len(set(hosts.values())) > copies
    found: dict[str, frozenset[int]] = {}
    for member, host in hosts.items():
        place = host if has_hosts else member.token
        found[place] = found.get(place, _NONE) | holdings.get(member, {}).get(step, _NONE)
    return found


def _find_parts(step: KeptStep, holders: Iterable[frozenset[int]], least: int) -> set[int]:
    """Return the parts that at least `least` of these sets have."""
    # found[k] has the parts that k + 1 sets have, so far.
    found: list[set[int]] = [set() for _ in range(least)]
    for parts in holders:
        for k in range(least - 1, 0, -1):
            found[k] |= found[k - 1] & parts
        found[0] |= parts
        if len(found[-1]) == step.parts:
            break
    return found[-1]
