"""Kubernetes' way to write a moment: RFC 3339, UTC, mostly whole seconds. Elsewhere it is float seconds since 1970."""

from datetime import UTC, datetime


def to_rfc3339(moment_s: float) -> str:
    """`1735689600.7` → `2025-01-01T00:00:00Z`; fractions are cut off, as the API server does."""
    return datetime.fromtimestamp(int(moment_s), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_rfc3339_ms(moment_s: float) -> str:
    """`1735689600.7` → `2025-01-01T00:00:00.700Z`, where a second is too coarse."""
    return datetime.fromtimestamp(moment_s, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_rfc3339(text: str | None) -> float | None:
    """Seconds since 1970; None for no text, or for text that is not a moment (status may come from anywhere)."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
