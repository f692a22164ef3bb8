"""The facts that a worker's interpreter reports before its script begins; see user_python/warm_start."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 1 << 16
"""A longer first line is not a greeting."""


_MAX_NAME = 100
_MAX_VERSION = 1000
"""Above each of the three numbers of a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """One interpreter, as it described itself."""

    pid: int
    executable: str
    """The program file, without symbolic links."""
    cmdline: tuple[str, ...]
    argv0: str
    """`sys.argv[0]` before the script: its path, `-m`, `-c`, or nothing for an interactive interpreter."""
    version: tuple[int, ...]
    implementation: str
    libc: str
    """Name and version, such as `glibc 2.36`; empty for another library."""
    gil: bool
    debug_build: bool
    tracer: bool
    inspect: bool
    safe_path: bool
    usercustomize: bool
    """Whether a usercustomize runs before the script, after the place where a zygote imports."""
    import_log: bool
    """Whether the interpreter writes about each import, or to a file named by its pid."""
    debug_allocator: bool
    """Whether memory is allocated with checks, as `-X dev` and PYTHONMALLOC=debug ask for."""


def parse_greeting(line: bytes) -> Greeting | None:
    """Return the greeting in this line, None if it is not one: any program of the user may write to the pipe."""
    if len(line) > MAX_BYTES:
        return None
    try:
        value = ast.literal_eval(line.decode("ascii"))
        return _greeting(value)
    except (ValueError, SyntaxError, TypeError, KeyError, OverflowError, MemoryError, RecursionError, AttributeError):
        return None


def _greeting(value: Mapping[str, Any]) -> Greeting:
    return Greeting(
        pid=int(value["pid"]),
        executable=str(value["executable"]),
        cmdline=tuple(map(str, value["cmdline"])),
        argv0=str(value["argv0"]),
        version=_version(value["version"]),
        implementation=str(value["implementation"])[:_MAX_NAME],
        libc=str(value["libc"])[:_MAX_NAME],
        gil=value["gil"] is True,
        debug_build=value["debug_build"] is True,
        tracer=value["tracer"] is True,
        inspect=value["inspect"] is True,
        safe_path=value["safe_path"] is True,
        usercustomize=value["usercustomize"] is True,
        import_log=value["import_log"] is True,
        debug_allocator=value["debug_allocator"] is True,
    )


def _version(value: Iterable[Any]) -> tuple[int, ...]:
    version = tuple(map(int, value))
    match version:
        case (_, _, _) if all(0 <= each < _MAX_VERSION for each in version):
            return version
    raise ValueError("no version")
