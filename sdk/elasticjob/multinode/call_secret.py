"""The secret that all nodes of a call share: from the caller, the environment, or a file of this user.

It is never sent through etcd. Nodes that meet on the loopback interface are on one machine. For them, a file that only
this user can read is enough; the first call creates it.
"""

import contextlib
import logging
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from elasticjob_agent.net.host_port import is_loopback

VARIABLE = "ELASTICJOB_CALL_SECRET"
VARIABLE_FILE = "ELASTICJOB_CALL_SECRET_FILE"
_MIN_LENGTH = 16
"""Characters: a listener on a call's connection could find a short secret by trying."""

log = logging.getLogger(__name__)


def find_secret(given: str | None, host: str, environment: Mapping[str, str]) -> str | None:
    """Return the secret of calls that meet at `host`; None without one. Raise ValueError or OSError."""
    if given is not None:
        return _validate(given, "secret")
    if VARIABLE in environment:
        return _validate(environment[VARIABLE], VARIABLE)
    if VARIABLE_FILE in environment:
        return _read(Path(environment[VARIABLE_FILE]), VARIABLE_FILE)
    return _own_if_possible(_own_file(environment)) if is_loopback(host) else None


def _validate(text: str, name: str) -> str:
    if len(text) < _MIN_LENGTH:
        raise ValueError(
            f"{name} has {len(text)} characters but needs {_MIN_LENGTH}: create one with `openssl rand -hex 32`"
        )
    return text


def _read(path: Path, name: str) -> str:
    """Return the secret in a file; raise ValueError if others may read it, or if it belongs to another user."""
    with path.open() as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise ValueError(f"{name}: {path} must belong to this user, and no other may read it: chmod 600 {path}")
        return _validate(file.read().strip(), name)


def _own_file(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "elasticjob" / "call-secret"


def _own_if_possible(path: Path) -> str | None:
    try:
        return _own(path)
    except OSError as error:  # for example a read-only home
        log.warning("cannot store a secret for the nodes of this machine in %s: %s", path, error.strerror)
        return None


def _own(path: Path) -> str:
    """Return this user's secret, and create it if it is missing."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with open(draft, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):  # another call of this user was first
            path.hardlink_to(draft)
        draft.unlink()
    return _read(path, "this user's secret")
