"""A message for an etcd that did not start, made from the end of its log."""

import json
from pathlib import Path

_TAIL_BYTES = 65_536
_ERRORS = ('{"level":"error"', '{"level":"panic"', '{"level":"fatal"')


def explain(log: Path, *, port: int | None, otherwise: str) -> str:
    """Return the reason why etcd did not start; `otherwise` is the reason without its log."""
    text = _tail(log)
    if "address already in use" in text:
        return f"etcd cannot listen on port {port} of this machine: another program does; choose another port"
    last = _last_error_line(text)
    return f"{otherwise}; its last log line: {last} (log: {log})" if last else f"{otherwise}; it wrote nothing"


def last_error(log: Path) -> str:
    """Return the last error in its log; empty if there is none."""
    return next((_last_error_line(line) for line in reversed(_tail(log).splitlines()) if line.startswith(_ERRORS)), "")


def rejects_flag(log: Path, flag: str) -> bool:
    """Whether this etcd ended because it does not know `flag`."""
    return f"flag provided but not defined: -{flag}" in _tail(log)


def _tail(log: Path) -> str:
    try:
        return log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""


def _last_error_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    try:
        record = json.loads(lines[-1])
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return lines[-1].strip()
    return ": ".join(str(record[name]) for name in ("msg", "error") if name in record)
