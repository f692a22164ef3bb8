"""Which files a part may have: their names and their number. No I/O.

Scripts and peers choose these names, so each is checked before a path is made of it.
"""

from collections.abc import Iterable, Sequence

from elasticjob_agent.keep.volume.errors import PartRefused

FILE_LIMIT = 10_000
"""The most files and directories of a part."""
DEPTH_LIMIT = 8
"""The most directories that a file is below."""
_COMPONENT_BYTES = 255
_SIZE_LIMIT = 1 << 62


def check_file_name(name: str) -> None:
    """Raise PartRefused unless this is a relative name that stays below its directory."""
    components = name.split("/")
    if not name.isprintable():
        raise PartRefused(f"the file name {name!r:.120} has characters that cannot be printed")
    if any(each in {"", ".", ".."} for each in components):
        raise PartRefused(f"the file name {name!r:.120} is not a plain relative name")
    if len(components) - 1 > DEPTH_LIMIT:
        raise PartRefused(
            f"the file {name!r:.120} is below {len(components) - 1} directories; {DEPTH_LIMIT} are the most"
        )
    if any(len(each.encode()) > _COMPONENT_BYTES for each in components):
        raise PartRefused(f"a component of the file name {name!r:.120} is longer than {_COMPONENT_BYTES} bytes")


def check_files(files: Sequence[tuple[str, int]]) -> None:
    """Raise PartRefused unless a part may consist of these names and sizes."""
    if len(files) > FILE_LIMIT:
        raise PartRefused(f"the part has {len(files)} files; {FILE_LIMIT} are the most")
    for name, size in files:
        check_file_name(name)
        if not 0 <= size < _SIZE_LIMIT:
            raise PartRefused(f"the file {name!r:.120} has a size of {size!r:.40}")
    names = {name for name, _ in files}
    if len(names) < len(files):
        raise PartRefused("the part has two files of one name")
    if both := names.intersection(directories_of(names)):
        raise PartRefused(f"{min(both)!r:.120} is both a file and a directory")


def directories_of(names: Iterable[str]) -> frozenset[str]:
    """Return each directory, at any depth, that these files need."""
    found: set[str] = set()
    for name in names:
        directory = name.rpartition("/")[0]
        while directory and directory not in found:
            found.add(directory)
            directory = directory.rpartition("/")[0]
    return frozenset(found)
