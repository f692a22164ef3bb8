"""Error files, in which a worker leaves the record of an exception for its parent: write and copy them.

The path comes from TORCHELASTIC_ERROR_FILE; without it nothing is written. A file is written under another name and
then renamed, so that a reader gets all of it or none. A failed write is logged, and never hides the exception itself.
"""

import contextlib
import faulthandler
import json
import logging
import os
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

_ENV = "TORCHELASTIC_ERROR_FILE"


class ErrorHandler:
    """Records exceptions in error files.

    TORCHELASTIC_ERROR_FILE names the file at the time of the record; without that variable nothing is written. An error
    file that cannot be written is logged, never raised.
    """

    def _get_error_file_path(self) -> str | None:
        return os.environ.get(_ENV)

    def initialize(self) -> None:
        """Make a crash print the stacks of all threads to stderr; warn if stderr has no descriptor."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # noqa: BLE001 - stderr may be any object; the program runs without the handler
            warnings.warn(f"cannot enable the fault handler: {type(error).__name__}: {error}", stacklevel=2)

    def record_exception(self, e: BaseException) -> None:
        """Write the exception, its traceback and the time to the error file, completely or not at all."""
        path = self._get_error_file_path()
        if path:
            trace = "".join(traceback.format_exception(type(e), e, e.__traceback__))
            self._write_error_file(path, json.dumps(describe(type(e).__name__, text_of(e), trace)))

    def override_error_code_in_rootcause_data(
        self, rootcause_error_file: str, rootcause_error: dict[str, Any], error_code: int = 0
    ) -> None:
        """Set the exit code in this content of a child's error file.

        Args:
            rootcause_error_file: the child's file, for the log.
            rootcause_error: the content, changed in place; a `message` that is no mapping is logged.
            error_code: 0 to 255, or minus the number of a signal.
        """
        message = rootcause_error.get("message")
        if isinstance(message, dict):
            message["errorCode"] = error_code
        else:
            logger.warning(
                "cannot add error code %s to %s: its `message` is no mapping", error_code, rootcause_error_file
            )

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy a child's error file over our own, with its exit code; log the old content.

        Args:
            rootcause_error_file: the child's file.
            error_code: its exit code, or minus the number of a signal; 0 leaves the content unchanged.

        Raises:
            OSError: the child's file cannot be read.
            ValueError: it is no JSON.
        """
        data = json.loads(Path(rootcause_error_file).read_text(encoding="utf-8"))
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, data, error_code)
        path = self._get_error_file_path()
        if not path:
            logger.error("%s is not set, so %s is not copied; its content: %s", _ENV, rootcause_error_file, data)
            return
        self._log_existing(path)
        self._write_error_file(path, json.dumps(data))

    def _log_existing(self, path: str) -> None:
        with contextlib.suppress(OSError):  # there is none
            content = Path(path).read_text(encoding="utf-8", errors="replace")
            logger.warning("%s is overwritten by the error of a child; its content was: %s", path, content)

    def _write_error_file(self, file_path: str, error_msg: str) -> None:
        try:
            write_atomically(Path(file_path), error_msg)
        except OSError as error:
            logger.warning("cannot write the error file %s: %s; its content: %s", file_path, error.strerror, error_msg)


def describe(kind: str, text: str, trace: str) -> dict[str, Any]:
    """Return the content of an error file."""
    now_ns = time.time_ns()
    extra = {"py_callstack": trace, "timestamp": str(now_ns // 1_000_000_000), "timestamp_ns": str(now_ns)}
    return {"message": {"message": f"{kind}: {text}", "extraInfo": extra}}


def text_of(error: BaseException) -> str:
    """Return `str(error)`, or a replacement if its `__str__` raises."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - a broken __str__ must not hide the error itself
        return f"<its text cannot be shown: __str__ raised {type(broken).__name__}>"


def write_atomically(path: Path, text: str) -> None:
    """Write the file completely or not at all; an OSError is raised unchanged."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
