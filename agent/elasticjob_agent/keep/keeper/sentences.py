"""The fields of a keeper's messages that have a sentence for users. No I/O."""

from typing import Any

from elasticjob_api.codec import with_codec
from elasticjob_api.errors import CodecError
from elasticjob_api.one_line import one_line

MOST_LETTERS = 2000
"""So much of a sentence is read: a script chooses names that are in it."""


def _read_sentence(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise CodecError(path, f"{value!r:.60} is not a string")
    return one_line(value, MOST_LETTERS)


SENTENCE = with_codec(str, _read_sentence)
"""The metadata of such a field: what is read is one line, so that it cannot forge lines of a log."""
