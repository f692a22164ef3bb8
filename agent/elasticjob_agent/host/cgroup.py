"""The folders of this process's cgroups, version 2 or 1, and the numbers in their files.

A file that does not exist, or has another content, has no number: many containers hide some of them.
"""

from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def folders(controller: str, cgroup: Path = CGROUP, proc: Path = OWN_CGROUPS) -> list[Path]:
    """Return where the files of this controller may be, best first; in a container usually the root of the mount."""
    paths = dict(_controllers(read_text(proc)))
    found = []
    if controller in paths:  # version 1, or both at once
        found += [cgroup / controller / paths[controller], cgroup / controller]
    if "" in paths:
        found += [cgroup / paths[""], cgroup]
    return found


def _controllers(text: str) -> list[tuple[str, str]]:
    """Return (controller, path) for each line `7:memory:/a/b`; version 2 is `0::/a/b`, with an empty controller."""
    lines = [line.split(":", 2) for line in text.splitlines()]
    parts = [line for line in lines if len(line) == 3]  # noqa: PLR2004 -- id, controllers, path
    return [(name, path.strip("/")) for _, names, path in parts for name in names.split(",")]


def read_line(file: Path, name: str) -> int | None:
    """Return the number in the first line that begins with this word, for example `oom_kill 3`."""
    for line in read_text(file).splitlines():
        word, _, value = line.partition(" ")
        if word.rstrip(":") == name:
            return parse_number(value.removesuffix(" kB"))
    return None


def read_number(file: Path) -> int | None:
    """Return the number that is all of this file."""
    return parse_number(read_text(file))


def parse_number(text: str) -> int | None:
    """Return the number, or None for another text, such as `max`."""
    return int(text) if text.strip().isdecimal() else None


def read_text(file: Path) -> str:
    """Return the content, or an empty text."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
