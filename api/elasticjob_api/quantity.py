"""Kubernetes quantities (`500m`, `2Gi`) as numbers."""

import re
from decimal import ROUND_CEILING, Decimal, InvalidOperation

_SUFFIXES = {
    **{suffix: Decimal(1024) ** (i + 1) for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{suffix: Decimal(1000) ** (i + 1) for i, suffix in enumerate(("k", "M", "G", "T", "P", "E"))},
    "": Decimal(1),
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}
_MAX_BYTES = (1 << 63) - 1
"""Kubernetes has no larger quantity either."""
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[A-Za-z]{0,2})")

_SIZE = re.compile(r"0*[1-9][0-9.]*([numkMGTPE]|[KMGTPE]i|[eE][0-9]+)?")


def is_size(text: str) -> bool:
    """Return whether a text is a quantity above 0 that begins with a digit."""
    return _SIZE.fullmatch(text) is not None


def parse_quantity(value: str | float) -> Decimal:
    """Return the number: 0.5 for `"500m"`, 1073741824 for `"1Gi"`; raise ValueError for other text."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a quantity such as 500m, 2 or 4Gi")
    number, suffix = match.groups()
    if suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        try:
            return Decimal(number + suffix)
        except InvalidOperation as error:
            raise ValueError(f"{value!r:.60} is not a quantity: its exponent is too large") from error
    if suffix not in _SUFFIXES:
        raise ValueError(f"{value!r} is not a quantity: {suffix!r} is not a suffix of one")
    return Decimal(number) * _SUFFIXES[suffix]


def in_units_of(quantity: Decimal, divisor: Decimal) -> int:
    """Return the number of whole divisors, rounded up, as the downward API does."""
    return int((quantity / divisor).to_integral_value(rounding=ROUND_CEILING))


def bytes_of(value: str | float) -> int:
    """Return a quantity as whole bytes, rounded up and at most 2^63 - 1; raise ValueError for other text."""
    quantity = parse_quantity(value)
    # Compared first: the number may have a million digits.
    return _MAX_BYTES if quantity > _MAX_BYTES else in_units_of(quantity, Decimal(1))
