"""The settings of Keep from the options `--keep-…`, or from the variables ELASTICJOB_KEEP_… of a pod."""

import argparse
import math
import os
from collections.abc import Mapping
from pathlib import Path

from elasticjob_agent.errors import UsageError
from elasticjob_agent.node.keep_settings import KeepSettings, PersistSettings, TlsFiles
from elasticjob_api import constants
from elasticjob_api.keep_bandwidth import default_bandwidth

_VARIABLES = {
    "keep_dir": constants.ENV_KEEP_DIR,
    "keep_size": constants.ENV_KEEP_SIZE_LIMIT,
    "keep_copies": constants.ENV_KEEP_COPIES,
    "keep_bandwidth": constants.ENV_KEEP_BANDWIDTH,
    "keep_restore_timeout": constants.ENV_KEEP_RESTORE_TIMEOUT,
    "keep_persist_to": constants.ENV_KEEP_PERSIST_TO,
    "keep_persist_every": constants.ENV_KEEP_PERSIST_EVERY,
    "keep_persist_keep": constants.ENV_KEEP_PERSIST_KEEP,
}
_OF_PERSISTING = ("keep_persist_every", "keep_persist_keep", "keep_no_resume")
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_MOST_DIGITS = 18
_MOST_BYTES_DIGITS = 19
"""The operator gives 2^63 - 1 for what is more."""


def parse_keep(
    namespace: argparse.Namespace, environment: Mapping[str, str], *, tls: TlsFiles | None = None
) -> KeepSettings | None:
    """Return the settings; None if no directory is given. `tls` has the files of this node's keeper, if it has any.

    Raises:
        UsageError: a value is invalid, or an option has no meaning without a directory.
    """
    given = {name: getattr(namespace, name) or environment.get(variable) for name, variable in _VARIABLES.items()}
    if not given["keep_dir"]:
        if useless := next((name for name in (*_VARIABLES, "keep_no_resume") if getattr(namespace, name)), None):
            raise UsageError(f"--{useless.replace('_', '-')} needs --keep-dir, the directory in which steps are kept")
        return None
    directory = Path(given["keep_dir"]).absolute()
    may_resume = not namespace.keep_no_resume and environment.get(constants.ENV_KEEP_RESUME) != "0"
    return KeepSettings(
        directory=directory,
        size_limit=_bytes("keep-size", given["keep_size"], least=1) if given["keep_size"] else None,
        copies=_copies(given["keep_copies"]),
        bandwidth=_bandwidth(given["keep_bandwidth"], has_tls=tls is not None),
        restore_timeout_s=_seconds("keep-restore-timeout", given["keep_restore_timeout"])
        or constants.KEEP_RESTORE_TIMEOUT_S,
        tls=tls,
        persist=_persist(
            namespace,
            given,
            directory,
            may_resume=may_resume,
            persisted_step=_step(environment.get(constants.ENV_KEEP_PERSISTED)),
        ),
    )


def tls_files(certificate: str | None, key: str | None, authority: str | None) -> TlsFiles | None:
    """Return the files with which keepers prove their identity to each other, if all are given."""
    if not (certificate and key and authority):
        return None
    return TlsFiles(certificate=certificate, key=key, authority=authority)


def _persist(
    namespace: argparse.Namespace,
    given: Mapping[str, str | None],
    memory: Path,
    *,
    may_resume: bool,
    persisted_step: int | None,
) -> PersistSettings | None:
    """Return where steps are persisted; None if no directory is given."""
    if not given["keep_persist_to"]:
        if useless := next((name for name in _OF_PERSISTING if getattr(namespace, name)), None):
            why = "needs --keep-persist-to, the directory to which steps are written"
            raise UsageError(f"--{useless.replace('_', '-')} {why}")
        return None
    directory = Path(os.path.normpath(Path(given["keep_persist_to"]).absolute()))
    if directory.is_relative_to(memory):
        raise UsageError(f"--keep-persist-to {directory}: it lies in {memory}, which is in memory; choose a disk")
    return PersistSettings(
        directory=directory,
        every_s=_seconds("keep-persist-every", given["keep_persist_every"]) or constants.KEEP_PERSIST_EVERY_S,
        keep=_persist_keep(given["keep_persist_keep"]),
        # The job itself has persisted that step, so it is none that is new, also if etcd has lost its state.
        may_resume=may_resume or persisted_step is not None,
        persisted_step=persisted_step,
    )


def _step(text: str | None) -> int | None:
    """Return the number of a step, which the operator has read in a status; None if there is none."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text or 0) if is_number else None


def _persist_keep(text: str | None) -> int:
    if not text:
        return constants.KEEP_PERSIST_KEEP
    most = constants.MOST_KEEP_PERSIST_KEEP
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise UsageError(f"--keep-persist-keep {text:.40}: it must be a whole number from 1 to {most}")
    return int(text)


def _bandwidth(text: str | None, *, has_tls: bool) -> int:
    return _bytes("keep-bandwidth", text) if text else default_bandwidth(has_tls=has_tls)


def _bytes(option: str, text: str, *, least: int = 0) -> int:
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    digits = text.removesuffix(unit)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_BYTES_DIGITS
    size = int(digits) * _UNITS.get(unit, 1) if is_number else -1
    if size < least:
        raise UsageError(f"--{option} {text:.40}: it must be a number of bytes from {least}, such as 8Gi")
    return size


def _copies(text: str | None) -> int:
    if not text:
        return constants.KEEP_COPIES
    if not (text.isascii() and text.isdigit() and len(text) == 1 and int(text) <= constants.MOST_KEEP_COPIES):
        raise UsageError(f"--keep-copies {text:.40}: it must be a whole number from 0 to {constants.MOST_KEEP_COPIES}")
    return int(text)


def _seconds(option: str, text: str | None) -> float | None:
    """Return the number above 0 in a text; None for no text."""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--{option} {text:.40}: it must be a number of seconds above 0")
    return seconds
