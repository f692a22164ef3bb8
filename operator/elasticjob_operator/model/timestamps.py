"""Timestamps of Kubernetes: RFC 3339, UTC, mostly whole seconds. Other code uses float seconds since 1970."""

from datetime import UTC, datetime


def to_rfc3339(moment_s: float) -> str:
    """Return `2025-01-01T00:00:00Z` for `1735689600.7`; fractions are cut off, as by the API server."""
    return datetime.fromtimestamp(int(moment_s), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_rfc3339_ms(moment_s: float) -> str:
    """Return `2025-01-01T00:00:00.700Z` for `1735689600.7`, where a second is too coarse."""
    return datetime.fromtimestamp(moment_s, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_rfc3339(text: str | None) -> float | None:
    """Return seconds since 1970; None for no text or an invalid one (a status may come from anywhere)."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
