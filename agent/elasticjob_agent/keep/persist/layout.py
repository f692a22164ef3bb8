"""The names below the shared directory; no I/O.

    <persistTo>/<job>/step-<number>.<run>.<round>.<nonce>.<parts>/   a whole step: the files of all its parts
    <persistTo>/<job>/.unfinished/<step>/files/                      a step that is being written: the same files
    <persistTo>/<job>/.unfinished/<step>/parts/<index>.json          all files of this part are there
    <persistTo>/<job>/.unfinished/<step>/copied/<index>/             a part whose files are being moved to files/
    <persistTo>/<job>/.unfinished/<step>/writing/                    a part that is being copied, by one writer
    <persistTo>/<job>/.trash/                                        what is being deleted
    <persistTo>/<job>/.id                                            random text: the same on all nodes
    <persistTo>/<job>/.job                                           the text <job>: no other name is right

Others may write into that directory, so each name that is read is checked by the type that it becomes.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from elasticjob_agent.keep.persist.errors import PersistRefused
from elasticjob_agent.keep.volume.errors import PartRefused
from elasticjob_agent.keep.volume.file_names import check_files
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep, parse_number

UNFINISHED, TRASH, ID, JOB = ".unfinished", ".trash", ".id", ".job"
FILES, PARTS, COPIED, WRITING, LIST = "files", "parts", "copied", "writing", "list.json"
_PREFIX = "step-"
_WORDS = ("number", "run", "round", "nonce", "parts")
_MARKER = re.compile(r"(0|[1-9][0-9]{0,4})\.json")
_ID = re.compile(r"[0-9a-f]{16}")
_OPERATED = re.compile(r"/elasticjob/[^/]+/([a-z0-9-]{1,63})/([a-z0-9.-]{1,253})/[^/]+")
_UNSAFE = re.compile(r"[^0-9A-Za-z_-]")
_READABLE = 60

Parse = Callable[[str], PersistedStep | None]
"""Return the step with this name; None for another name."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a part in memory."""

    name: str
    size: int
    crc: int | None = None
    """CRC-32 of the contents, or None as long as it is not known."""


@dataclass(frozen=True, slots=True)
class PersistedFile:
    """One file of a persisted part."""

    name: str
    size: int
    crc: int
    """CRC-32 of the contents."""


def job_dir_name(job: str) -> str:
    """Return the name of the directory of a job, from the prefix of its keys: a job that is created again has the same.

    A namespace has no dot, so two jobs of a cluster never share a name. Names of the command line have no dot at all.
    """
    if found := _OPERATED.fullmatch(job):
        return f"{found[1]}.{found[2]}"
    digest = hashlib.sha1(job.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{_UNSAFE.sub('-', job.rpartition('/')[2])[:_READABLE]}-{digest}"


def whole_name(step: PersistedStep) -> str:
    """Return the name of the directory of a whole step."""
    kept = step.step
    return f"{_PREFIX}{kept.number}.{step.run}.{kept.lineage}.{kept.parts}"


def parse_whole(name: str) -> PersistedStep | None:
    """Return the step that `whole_name` named; None for any other name."""
    words = name.removeprefix(_PREFIX).split(".")
    if not name.startswith(_PREFIX) or len(words) != len(_WORDS):
        return None
    number, run, round_, nonce, parts = words
    try:
        lineage = Lineage(parse_number(round_, "round"), nonce)
        return PersistedStep(run, KeptStep(lineage, parse_number(number, "step"), parse_number(parts, "parts")))
    except RecordError:
        return None


def parse_unfinished(name: str) -> PersistedStep | None:
    """Return the step of an unfinished directory; None for any other name."""
    try:
        return PersistedStep.parse(name)
    except RecordError:
        return None


def marker_name(index: int) -> str:
    """Return the name of the file that shows that all files of a part are there."""
    return f"{index}.json"


def parse_marker(name: str) -> int | None:
    """Return the index of the part whose marker has this name; None for any other name."""
    found = _MARKER.fullmatch(name)
    return None if found is None else int(found[1])


def is_id(text: str) -> bool:
    """Whether this is the id of a directory."""
    return _ID.fullmatch(text) is not None


def encode_marker(files: Iterable[PersistedFile]) -> bytes:
    """Return the contents of a marker."""
    return json.dumps({"v": 1, "files": [[file.name, file.size, file.crc] for file in files]}).encode()


def decode_marker(data: bytes) -> tuple[PersistedFile, ...]:
    """Return the files of a part; raise PersistRefused if this is no marker."""
    try:
        value = json.loads(data)
        files = tuple(_file_of(*row) for row in value["files"])
        check_files([(file.name, file.size) for file in files])
    except (ValueError, TypeError, KeyError, RecursionError, PartRefused) as error:
        raise PersistRefused(f"the list of a part's files cannot be read: {str(error)[:120]}") from error
    return files


def _file_of(name: object, size: object, crc: object) -> PersistedFile:
    if not (type(name) is str and type(size) is int and type(crc) is int):
        raise ValueError("a field has another type")
    return PersistedFile(name, size, crc)


def merge_parts(parts: Iterable[tuple[PersistedFile, ...]]) -> dict[str, PersistedFile]:
    """Return the files of a whole step by their names; raise PersistRefused if two parts differ in one."""
    merged: dict[str, PersistedFile] = {}
    for files in parts:
        for file in files:
            if merged.setdefault(file.name, file) != file:
                raise PersistRefused(f"two parts have different files {file.name!r:.120}")
    return merged
