"""The finding of a check: its severity, a message, and the cure of a fault."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticjob import Cluster


class Severity(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"
    SKIP = "skip"  # the check was not possible, mostly for a missing permission


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    what: str
    grade: Severity
    message: str
    cure: str = ""


@dataclass(slots=True, kw_only=True)
class CheckContext:
    """The input of checks; the check that finds the operator sets `namespace`."""

    cluster: "Cluster"
    version: str
    now_s: Callable[[], float]
    namespace: str = ""
    """Namespace of the operator; empty until it is found."""


Check = Callable[[CheckContext], Iterable[Finding]]


def ok(what: str, message: str) -> Finding:
    """Return a finding without a fault."""
    return Finding(what, Severity.OK, message)


def warn(what: str, message: str, cure: str) -> Finding:
    """Return a finding of a part that works but needs attention."""
    return Finding(what, Severity.WARN, message, cure)


def fail(what: str, message: str, cure: str) -> Finding:
    """Return a finding of a part that cannot work."""
    return Finding(what, Severity.FAIL, message, cure)


def skip(what: str, message: str, cure: str = "") -> Finding:
    """Return a finding of a check that was not possible."""
    return Finding(what, Severity.SKIP, message, cure)
