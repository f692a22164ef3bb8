"""The finding of a check: its level, in words, and the cure of a fault."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticjob import Cluster


class Severity(StrEnum):
    """How it stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"
    SKIP = "skip"  # it cannot be known, mostly because of missing rights


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    what: str
    grade: Severity
    message: str
    cure: str = ""


@dataclass(slots=True, kw_only=True)
class CheckContext:
    """What checks look at; the installation is filled in by the check that finds it."""

    cluster: "Cluster"
    version: str
    now_s: Callable[[], float]
    namespace: str = ""
    """Where the operator is; empty until found."""


Check = Callable[[CheckContext], Iterable[Finding]]


def ok(what: str, message: str) -> Finding:
    """It is as it should be."""
    return Finding(what, Severity.OK, message)


def warn(what: str, message: str, cure: str) -> Finding:
    """It works, and something should be done."""
    return Finding(what, Severity.WARN, message, cure)


def fail(what: str, message: str, cure: str) -> Finding:
    """It cannot work."""
    return Finding(what, Severity.FAIL, message, cure)


def skip(what: str, message: str, cure: str = "") -> Finding:
    """Nobody may look."""
    return Finding(what, Severity.SKIP, message, cure)
