"""The rate of copies for a job that names none."""

from elasticjob_api import constants


def default_bandwidth(*, has_tls: bool) -> int:
    """Return the bytes a second for copies; docs/keep-numbers.md has what each rate costs the training."""
    return constants.KEEP_TLS_BANDWIDTH_BYTES if has_tls else constants.KEEP_BANDWIDTH_BYTES
