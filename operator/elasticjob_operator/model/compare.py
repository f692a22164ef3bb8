"""Comparison of records by some of their fields, without a copy: it runs for every report."""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any


def fields_except(record: type, *without: str) -> Callable[[Any], Any]:
    """Return a function from such a record to the values of all its fields but these, for comparison."""
    return attrgetter(*(each.name for each in fields(record) if each.name not in without))
