"""Whether a worker has failed to start: it will probably fail again as soon, so `restart_backoff` delays repetitions.

Progress that is reported proves work. A script without reports may have worked as well, so seconds of life and output
count too.
"""

import re

# The delay exists so that rounds do not follow each other without a pause. A life of this length is such a pause. So at
# most one round begins in three seconds, even if a rule ignores the exit code and no restart is ever charged.
WORKING_LIFE_S = 3.0
"""A worker that has lived this long counts as started, whatever it reports."""
# Output alone proves no work: many scripts print a line and fail at the next. With a rule that ignores the exit code,
# such a script would restart many times a second, for ever. From this time on, output ends a row of failures.
OUTPUT_COUNTS_S = 1.0
"""A worker that has lived this long counts as started if a worker of its node has written to stdout."""

_NOT_STARTED = re.compile(r"\b(ImportError|ModuleNotFoundError|SyntaxError)\b")


def is_startup_failure(*, life_s: float, has_progress: bool, has_output: bool, message: str) -> bool:
    """Return whether a worker that ended after `life_s` has failed to start.

    `has_progress` and `has_output` are about all workers of its node in the round.
    """
    if has_progress:
        return False
    if _NOT_STARTED.search(message):  # imports take minutes on a slow disk, and repeat exactly
        return True
    return life_s < (OUTPUT_COUNTS_S if has_output else WORKING_LIFE_S)
