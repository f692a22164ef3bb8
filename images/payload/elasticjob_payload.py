"""`/opt/elasticjob/bin/elasticjob-agent`, after the launcher: the agent in an image that has nothing of ours.

It has four functions. `--install TARGET` copies the payload into a volume, as the init container of a pod does.
`--enable-auth` prepares the data of an etcd (elasticjob_etcd.auth_bootstrap). `--run-member` becomes one of several
members of etcd (elasticjob_etcd.member_bootstrap): etcd's image has no shell. Any other arguments are the agent's
command line. It gets the container's environment as it was before the launcher hid it. So do the workers, without any
variable of the payload.

The interpreter is isolated: nothing here may use HOME, the user's name or a path outside the payload.
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
    """Run the selected program, and exit with its code."""
    arguments = sys.argv[1:]
    if arguments[:1] == [_INSTALL]:
        sys.exit(_install_from_command_line(arguments[1:]))
    if arguments[:1] == [_ENABLE_AUTH]:
        from elasticjob_etcd import auth_bootstrap  # noqa: PLC0415 -- installing needs nothing of it

        sys.exit(auth_bootstrap.main(arguments[1:], container_environment(os.environ)))
    if arguments[:1] == [_RUN_MEMBER]:
        from elasticjob_etcd import member_bootstrap  # noqa: PLC0415 -- as above

        sys.exit(member_bootstrap.main(arguments[1:], container_environment(os.environ)))
    # Imported late: installing needs nothing of the agent, and a container's init must not have it in its memory.
    from elasticjob_agent.container_init import run_as_init_if_pid1  # noqa: PLC0415 -- see above

    run_as_init_if_pid1()
    from elasticjob_agent.cli.main import load_command  # noqa: PLC0415 -- see above

    run = load_command()
    sys.exit(run(arguments, container_environment(os.environ)))


def container_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the container's environment before the launcher, without its additions."""
    return {
        name.removeprefix("~"): value for name, value in environment.items() if name.startswith(("~", "ELASTICJOB_"))
    }


def install(source: Path, target: Path) -> None:
    """Copy the contents of `source` into the folder `target`, also over those of an earlier attempt. Raises OSError.

    It copies the children and not the folder: a volume's root may belong to another user, so its mode cannot be set.
    """
    for child in os.scandir(source):
        there = os.path.join(target, child.name)  # noqa: PTH118 -- strings throughout: Paths cost a third of the time
        if child.is_dir():
            with contextlib.suppress(FileExistsError):
                os.mkdir(there)  # noqa: PTH102 -- a string
            install(Path(child.path), Path(there))
        else:
            _copy(child.path, there)


def _copy(source: str, target: str) -> None:
    """Copy one file, in the kernel."""
    reading = os.open(source, os.O_RDONLY)
    try:
        _write(reading, target)
    except FileExistsError:
        # The target may be mapped, or half written by an earlier attempt: write beside it, and rename. Without a
        # target, write directly: on ext4 to replace a file costs ten times as much as to create it.
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
    os.umask(0o022)  # the agent runs as another user
    try:
        install(HOME, Path(arguments[0]))
    except OSError as error:
        print(f"elasticjob-agent: cannot copy {HOME} to {arguments[0]}: {error}", file=sys.stderr)
        return _FAILED
    print(f"elasticjob-agent: copied {HOME} to {arguments[0]} in {time.monotonic() - start:.2f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    main()
