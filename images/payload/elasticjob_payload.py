"""`/opt/elasticjob/bin/elasticjob-agent`, after the launcher: the agent in an image that has nothing of ours.

Four things only. `--install TARGET` copies the payload into a volume, as the init container of a pod does.
`--enable-auth` prepares the data of an etcd (elasticjob_etcd.auth_bootstrap), and `--run-member` becomes one of several
members of etcd (elasticjob_etcd.member_bootstrap): etcd's image has no shell. Anything else is the agent's own command
line, with the environment that the container had before the launcher hid it: the workers get that one, and nothing of
the payload's.

The interpreter is isolated: nothing here may look at HOME, at the user's name or at a path outside the payload.
"""

import contextlib
import os
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path

HOME = Path("/opt/elasticjob")
_INSTALL = "--install"
_ENABLE_AUTH = "--enable-auth"
_RUN_MEMBER = "--run-member"
_FAILED = 1
_USAGE = 2


def main() -> None:
    """Run, and exit with the code of what was run."""
    arguments = sys.argv[1:]
    if arguments[:1] == [_INSTALL]:
        sys.exit(_install_from_command_line(arguments[1:]))
    if arguments[:1] == [_ENABLE_AUTH]:
        from elasticjob_etcd import auth_bootstrap  # noqa: PLC0415 -- installing needs nothing of it

        sys.exit(auth_bootstrap.main(arguments[1:], container_environment(os.environ)))
    if arguments[:1] == [_RUN_MEMBER]:
        from elasticjob_etcd import member_bootstrap  # noqa: PLC0415 -- as above

        sys.exit(member_bootstrap.main(arguments[1:], container_environment(os.environ)))
    # Only now: installing needs nothing of the agent, and the init of a container must not have it in its memory.
    from elasticjob_agent.container_init import run_as_init_if_pid1  # noqa: PLC0415 -- see above

    run_as_init_if_pid1()
    from elasticjob_agent.cli.run import run  # noqa: PLC0415 -- see above

    sys.exit(run(arguments, container_environment(os.environ)))


def container_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What the container's environment was before the launcher; what it added is left out."""
    return {
        name.removeprefix("~"): value for name, value in environment.items() if name.startswith(("~", "ELASTICJOB_"))
    }


def install(source: Path, target: Path) -> None:
    """Copy what is in `source` into the folder `target`; again, over what an earlier try has left. Raises OSError.

    Its children and not itself: a volume's root is another user's, so its mode cannot be set.
    """
    for child in os.scandir(source):
        there = os.path.join(target, child.name)  # noqa: PTH118 -- strings all the way: Paths cost a third of the time
        if child.is_dir():
            with contextlib.suppress(FileExistsError):
                os.mkdir(there)  # noqa: PTH102 -- a string
            install(Path(child.path), Path(there))
        else:
            _copy(child.path, there)


def _copy(source: str, target: str) -> None:
    """One file, in the kernel."""
    reading = os.open(source, os.O_RDONLY)
    try:
        _write(reading, target)
    except FileExistsError:
        # It may be mapped, or half written by an earlier try: beside it first. Never when nothing is there: on ext4 to
        # replace a file costs ten times as much as to make it.
        beside = f"{target}.new"
        Path(beside).unlink(missing_ok=True)
        _write(reading, beside)
        os.rename(beside, target)  # noqa: PTH104 -- a string
    finally:
        os.close(reading)


def _write(reading: int, target: str) -> None:
    found = os.fstat(reading)
    writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(found.st_mode))
    try:
        at = 0
        while at < found.st_size:
            at += os.sendfile(writing, reading, at, found.st_size - at)
    finally:
        os.close(writing)


def _install_from_command_line(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(f"elasticjob-agent: {_INSTALL} needs one folder: {_INSTALL} TARGET", file=sys.stderr)
        return _USAGE
    start = time.monotonic()
    os.umask(0o022)  # whoever runs it later is another user
    try:
        install(HOME, Path(arguments[0]))
    except OSError as error:
        print(f"elasticjob-agent: cannot copy {HOME} to {arguments[0]}: {error}", file=sys.stderr)
        return _FAILED
    print(f"elasticjob-agent: copied {HOME} to {arguments[0]} in {time.monotonic() - start:.2f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    main()
