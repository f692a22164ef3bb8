"""The rules between the fields of `spec.keep`, equal to the CRD's CEL rules."""

import re
from collections.abc import Iterator
from decimal import Decimal

from elasticjob_api import constants
from elasticjob_api.errors import FieldError
from elasticjob_api.quantity import is_size, parse_quantity
from elasticjob_api.spec import Keep

_PATH = re.compile(r"(/[^/:$\x00-\x1f\x7f]+)+/?")
"""No colon, as in every mount path; no dollar sign, which the kubelet would read as a variable."""
_DOTS = re.compile(r"/\.{1,2}(/|$)")
_MAX_PATH = 1024
_MAX_RESTORE_TIMEOUT_S = 3600
_PATH_FIELD = "spec.keep.persistTo"


def keep_errors(keep: Keep) -> Iterator[FieldError]:
    """Yield an error for each rule that the fields break."""
    path = "spec.keep"
    if not is_size(keep.size_limit) or (_quantity(keep.size_limit) or 0) <= 0:
        yield FieldError(f"{path}.sizeLimit", f"is {keep.size_limit!r}; it must be a quantity above 0, as 8Gi")
    if not 0 <= keep.copies <= constants.MOST_KEEP_COPIES:
        yield FieldError(f"{path}.copies", f"is {keep.copies}; it must be from 0 to {constants.MOST_KEEP_COPIES}")
    if keep.bandwidth is not None and ((rate := _quantity(keep.bandwidth)) is None or rate < 0):
        why = f"is {keep.bandwidth!r}; it must be a quantity of bytes a second, as 256Mi, or 0 for no limit"
        yield FieldError(f"{path}.bandwidth", why)
    if not 1 <= keep.restore_timeout_s <= _MAX_RESTORE_TIMEOUT_S:
        why = f"is {keep.restore_timeout_s:g}; it must be from 1 to {_MAX_RESTORE_TIMEOUT_S}"
        yield FieldError(f"{path}.restoreTimeoutSeconds", why)
    yield from _persist_errors(keep)


def _persist_errors(keep: Keep) -> Iterator[FieldError]:
    if keep.persist_to is None:
        if any(value is not None for value in (keep.persist_every_s, keep.persist_keep, keep.resume)):
            why = "is required for persistEverySeconds, persistKeep and resume; set it, or remove them"
            yield FieldError(_PATH_FIELD, why)
        return
    yield from _path_errors(keep.persist_to)
    least_s, most = constants.LEAST_KEEP_PERSIST_EVERY_S, constants.MOST_KEEP_PERSIST_KEEP
    if keep.persist_every_s is not None and keep.persist_every_s < least_s:
        why = f"is {keep.persist_every_s:g}; it must be at least {least_s:g}"
        yield FieldError("spec.keep.persistEverySeconds", why)
    if keep.persist_keep is not None and not 1 <= keep.persist_keep <= most:
        yield FieldError("spec.keep.persistKeep", f"is {keep.persist_keep}; it must be from 1 to {most}")


def _path_errors(path: str) -> Iterator[FieldError]:
    if len(path) > _MAX_PATH or not _PATH.fullmatch(path) or _DOTS.search(path):
        why = f"is {path!r:.80}; it must be an absolute path without '..', ':' and '$', as /checkpoints/steps"
        yield FieldError(_PATH_FIELD, why)
    elif f"{path}/".startswith(f"{constants.KEEP_DIR}/"):
        why = f"is {path!r:.80}; {constants.KEEP_DIR} is in memory and goes with its pod, choose a shared volume"
        yield FieldError(_PATH_FIELD, why)


def _quantity(value: str | int) -> Decimal | None:
    """Return the number; None for what is no quantity."""
    try:
        return parse_quantity(value)
    except ValueError:
        return None
