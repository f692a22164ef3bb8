"""How a command is changed so that its interpreter runs user_python/warm_start before the script."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.supervisor import Command, FileSink, Inherit, LineSink, Null, Sink

Write = Callable[[bytes], None]

_SITE_FOLDER = Path(__file__).parent.parent / "user_python" / "warm_start" / "site"
_MODULES = ("elasticjob_before_site.py", "sitecustomize.py")
"""The modules that Python imports from that folder before the script."""
REQUEST = "ELASTICJOB_PRELOAD"
_ORIGINAL = "ELASTICJOB_"
"""In front of the names of variables that we change: each of these has the original value."""
_BEFORE_SITE = "ignore::elasticjob_before_site.BeforeSiteKind"
"""An option for warnings, for which Python imports that module before it runs `.pth` files."""
_PRELOAD_PREFIX = b"[preload] "


def record_imports(command: Command, fd: int) -> Command:
    """Return the command with a recorder that writes to our descriptor `fd`."""
    place = 3 + len(command.fds)
    return replace(command, env=_injected(command.env, f"record:{place}"), fds=(*command.fds, fd))


def register_stacks(command: Command) -> Command:
    """Return the command with the registration of the signal for stacks."""
    return replace(command, env=_injected(command.env, "stacks"))


def become_zygote(command: Command, fd: int, output: Write) -> Command:
    """Return the command of a zygote for workers like this one; our descriptor `fd` is its socket.

    Its streams are of the same kinds. Their lines go to `output`, because the record of a failed worker must not have
    them.

    Raises:
        OSError: a file of ours cannot be read.
    """
    # Without these files Python would run the script. An upgrade in the running pod may have removed them since.
    for module in _MODULES:
        (_SITE_FOLDER / module).read_bytes()
    return replace(
        command,
        name=f"zygote of {command.name}",
        env=_injected(_put_first(command.env, "PYTHONWARNINGS", _BEFORE_SITE, ","), "zygote:3"),
        fds=(fd,),
        stdout=_sink_of_same_kind(command.stdout, output),
        stderr=_sink_of_same_kind(command.stderr, output),
        cpus=frozenset(),
    )


def _injected(env: Mapping[str, str], request: str) -> dict[str, str]:
    return {**_put_first(env, "PYTHONPATH", str(_SITE_FOLDER), os.pathsep), REQUEST: request}


def _put_first(env: Mapping[str, str], name: str, entry: str, separator: str) -> dict[str, str]:
    """Return the environment with this entry in front of those of a variable, and with the original value beside it."""
    original = env.get(name)
    # No separator behind it without more entries: an empty entry of PYTHONPATH is the current directory.
    changed = {**env, name: f"{entry}{separator}{original}" if original else entry}
    return changed if original is None else {**changed, _ORIGINAL + name: original}


def _sink_of_same_kind(sink: Sink, output: Write) -> Sink:
    match sink:
        case LineSink():
            return LineSink(None, _PRELOAD_PREFIX, output)
        case FileSink(path):
            return FileSink(path.with_name(f"preload-{path.name}"))
        case Inherit() | Null():
            return sink


def stream_kinds(command: Command) -> tuple[str, str]:
    """Return the kinds of a command's stdout and stderr."""
    return type(command.stdout).__name__, type(command.stderr).__name__
