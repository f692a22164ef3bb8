"""Macros in the arguments of workers and in the prefixes of their lines; all other text stays unchanged."""

import re
from collections.abc import Mapping

_LOCAL_RANK = re.compile(r"(\$?)\$(?:local_rank(?![A-Za-z0-9_])|\{local_rank\})")
_BRACED = re.compile(r"\$(?:\$|\{(\w+)\})")


def fill_in_local_rank(argument: str, local_rank: int) -> str:
    """Return the text with the number for `${local_rank}` and `$local_rank`; one dollar more keeps them as text."""
    return _LOCAL_RANK.sub(lambda found: found[0][1:] if found[1] else str(local_rank), argument)


def fill_in(template: str, values: Mapping[str, object]) -> str:
    """Return the text with the value of each known `${name}`, and `$` for `$$`; every other `$…` stays."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else str(values.get(found[1], found[0]))

    return _BRACED.sub(value, template)
