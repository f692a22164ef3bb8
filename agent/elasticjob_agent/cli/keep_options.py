"""The settings of Keep from the options `--keep-…`, or from the variables ELASTICJOB_KEEP_… of a pod."""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

from elasticjob_agent.errors import UsageError
from elasticjob_agent.node.keep_settings import KeepSettings, TlsFiles
from elasticjob_api import constants

_VARIABLES = {
    "keep_dir": constants.ENV_KEEP_DIR,
    "keep_size": constants.ENV_KEEP_SIZE_LIMIT,
    "keep_copies": constants.ENV_KEEP_COPIES,
    "keep_bandwidth": constants.ENV_KEEP_BANDWIDTH,
    "keep_restore_timeout": constants.ENV_KEEP_RESTORE_TIMEOUT,
}
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_MOST_DIGITS = 18


def parse_keep(namespace: argparse.Namespace, environment: Mapping[str, str]) -> KeepSettings | None:
    """Return the settings; None if no directory is given.

    Raises:
        UsageError: a value is invalid, or an option has no meaning without a directory.
    """
    given = {name: getattr(namespace, name) or environment.get(variable) for name, variable in _VARIABLES.items()}
    if not given["keep_dir"]:
        if useless := next((name for name in _VARIABLES if getattr(namespace, name)), None):
            raise UsageError(f"--{useless.replace('_', '-')} needs --keep-dir, the directory in which steps are kept")
        return None
    return KeepSettings(
        directory=Path(given["keep_dir"]).absolute(),
        size_limit=_bytes("keep-size", given["keep_size"], least=1) if given["keep_size"] else None,
        copies=_copies(given["keep_copies"]),
        bandwidth=_bytes("keep-bandwidth", given["keep_bandwidth"] or constants.KEEP_BANDWIDTH),
        restore_timeout_s=_timeout_s(given["keep_restore_timeout"]),
    )


def tls_files(certificate: str | None, key: str | None, authority: str | None) -> TlsFiles | None:
    """Return the files with which keepers prove their identity to each other, if all are given."""
    if not (certificate and key and authority):
        return None
    return TlsFiles(certificate=certificate, key=key, authority=authority)


def _bytes(option: str, text: str, *, least: int = 0) -> int:
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    digits = text.removesuffix(unit)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
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


def _timeout_s(text: str | None) -> float:
    if not text:
        return constants.KEEP_RESTORE_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--keep-restore-timeout {text:.40}: it must be a number of seconds above 0")
    return seconds
