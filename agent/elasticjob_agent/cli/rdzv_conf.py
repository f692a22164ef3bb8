"""The values of `--rdzv-conf KEY=VALUE,…`: torchrun's keys, our own, and torchrun's keys without an effect here.

Unknown keys are refused. Keys of torchrun's own backends that have no counterpart are listed in `unused`;
`ignored_options.py` warns about them.
"""

import math
from dataclasses import dataclass

from elasticjob_agent.errors import UsageError

_SECONDS = {
    "join_timeout",
    "timeout",
    "last_call_timeout",
    "keep_alive",
    "keep_alive_interval",
    "keep_alive_max_attempt",
    "progress_deadline",
    "restart_window",
    "backoff",
    "backoff_max",
}
_MAY_BE_NONE = {"last_call_timeout", "restart_window", "backoff", "backoff_max"}
_ATTEMPTS = 3.0
_INTERVAL_S = 5.0
_FILES = {"cacert": "ca", "ca_cert": "ca", "cert": "cert", "ssl_cert": "cert", "key": "key", "ssl_cert_key": "key"}
_IGNORED_BY_US = {"is_host", "etcd_port", "protocol"}
UNUSED = {
    "close_timeout": "no node waits for this rendezvous to close",
    "heartbeat_timeout": "keep_alive is the time after which a silent node counts as lost",
    "read_timeout": "each request to etcd has a limit of 3 s and is repeated until join_timeout",
    "store_type": "the shared state is in etcd",
    "use_libuv": "the shared state is in etcd",
    "etcd_prefix": "the keys are under /elasticjob/cli/<rdzv id>",
    "rank": "use --node-rank",
}
KNOWN = sorted(_SECONDS | set(_FILES) | _IGNORED_BY_US | set(UNUSED))
_YES = {"1": True, "true": True, "t": True, "yes": True, "y": True}
_NO = {"0": False, "false": False, "f": False, "no": False, "n": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class RdzvConf:
    """The parsed values; None for a key that is not given. Times are in seconds."""

    join_timeout_s: float | None = None
    last_call_timeout_s: float | None = None
    keep_alive_s: float | None = None
    progress_deadline_s: float | None = None
    restart_window_s: float | None = None
    backoff_initial_s: float | None = None
    backoff_max_s: float | None = None
    ca_cert: str | None = None
    cert: str | None = None
    key: str | None = None
    is_host: bool | None = None
    etcd_port: int | None = None
    unused: tuple[str, ...] = ()


def parse_conf(text: str) -> RdzvConf:
    """Return the values of all keys; the last of several values for a key counts. Raise UsageError for a wrong one."""
    given = dict(_pair(word) for word in text.split(",") if word.strip())
    seconds = {key: _seconds(key, value) for key, value in given.items() if key in _SECONDS}
    files = {_FILES[key]: value for key, value in given.items() if key in _FILES}
    if given.get("protocol", "").lower() == "https" and not files:
        raise UsageError("--rdzv-conf protocol=https: name the CA that signed etcd's certificate: cacert=FILE")
    return RdzvConf(
        join_timeout_s=seconds.get("join_timeout", seconds.get("timeout")),
        last_call_timeout_s=seconds.get("last_call_timeout"),
        keep_alive_s=_lease_ttl_s(seconds),
        progress_deadline_s=seconds.get("progress_deadline"),
        restart_window_s=seconds.get("restart_window"),
        backoff_initial_s=seconds.get("backoff"),
        backoff_max_s=seconds.get("backoff_max"),
        ca_cert=files.get("ca"),
        cert=files.get("cert"),
        key=files.get("key"),
        is_host=_parse_bool("is_host", given["is_host"]) if "is_host" in given else None,
        etcd_port=_port(given["etcd_port"]) if "etcd_port" in given else None,
        unused=tuple(key for key in given if key in UNUSED),
    )


def _pair(word: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in word.partition("="))
    if not equals or not value:
        raise UsageError(f"--rdzv-conf {word.strip()}: it must be KEY=VALUE")
    if key not in KNOWN:
        raise UsageError(f"--rdzv-conf {word.strip()}: known keys are {', '.join(KNOWN)}")
    return key, value


def _seconds(key: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf and not (key in _MAY_BE_NONE and seconds == 0):
        or_0 = "0 or " if key in _MAY_BE_NONE else ""
        raise UsageError(f"--rdzv-conf {key}={value}: it must be {or_0}a number above 0")
    return seconds


def _lease_ttl_s(seconds: dict[str, float]) -> float | None:
    """Return the seconds after which a silent node counts as lost; torchrun's form is interval times attempts."""
    if "keep_alive" in seconds:
        return seconds["keep_alive"]
    if "keep_alive_interval" not in seconds and "keep_alive_max_attempt" not in seconds:
        return None
    return seconds.get("keep_alive_interval", _INTERVAL_S) * seconds.get("keep_alive_max_attempt", _ATTEMPTS)


def _parse_bool(key: str, value: str) -> bool:
    truth = {**_YES, **_NO}.get(value.lower())
    if truth is None:
        raise UsageError(f"--rdzv-conf {key}={value}: it must be true or false")
    return truth


def _port(value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) < 1 << 16:
        raise UsageError(f"--rdzv-conf etcd_port={value}: it must be a port, 1 to 65535")
    return int(value)
