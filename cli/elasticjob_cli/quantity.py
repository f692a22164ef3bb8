"""Kubernetes quantities (`500m`, `2Gi`) as numbers."""

import re
from decimal import ROUND_CEILING, Decimal

_SUFFIXES = {
    **{suffix: Decimal(1024) ** (i + 1) for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{suffix: Decimal(1000) ** (i + 1) for i, suffix in enumerate(("k", "M", "G", "T", "P", "E"))},
    "": Decimal(1),
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[A-Za-z]{0,2})")


def parse_quantity(value: str | float) -> Decimal:
    """Return the number: 0.5 for `"500m"`, 1073741824 for `"1Gi"`; raise ValueError for other text."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a quantity such as 500m, 2 or 4Gi")
    number, suffix = match.groups()
    if suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        return Decimal(number + suffix)
    if suffix not in _SUFFIXES:
        raise ValueError(f"{value!r} is not a quantity: {suffix!r} is not a suffix of one")
    return Decimal(number) * _SUFFIXES[suffix]


def in_units_of(quantity: Decimal, divisor: Decimal) -> int:
    """Return the number of whole divisors, rounded up, as the downward API does."""
    return int((quantity / divisor).to_integral_value(rounding=ROUND_CEILING))
