"""`SubprocessHandler`: one command as a process, its log files, and the end of its process group.

A handler of a context shows a process that the supervisor has started; a handler created directly starts one.
"""

import os
import signal
import subprocess
from contextlib import suppress
from typing import IO, Any

from elasticjob_agent.host import numa

__all__ = ["SubprocessHandler", "get_subprocess_handler"]


class SubprocessHandler:
    """One running command, which leads a session of its own."""

    def __init__(  # noqa: PLR0917 - the signature is torch's
        self,
        entrypoint: str,
        args: tuple[Any, ...],
        env: dict[str, str],
        stdout: str | None,
        stderr: str | None,
        local_rank_id: int,
        numa_options: Any = None,
    ) -> None:
        """Start it.

        Args:
            entrypoint: the command.
            args: its arguments, each passed through `str`.
            env: added to our own environment.
            stdout: path to append to; None or empty for our own stream.
            stderr: the same for stderr.
            local_rank_id: its local rank.
            numa_options: see numa.py.
        """
        size = env.get("LOCAL_WORLD_SIZE", "")
        nprocs = max(int(size) if size.isdecimal() else 1, local_rank_id + 1)
        cpus = numa.cpu_bindings(numa_options, nprocs, {**os.environ, **env})[local_rank_id]
        self.local_rank_id = local_rank_id
        self.global_rank = int(env["RANK"]) if env.get("RANK", "").isdigit() else None
        self._files: list[IO[bytes]] = []
        try:
            self._stdout, self._stderr = self._open(stdout), self._open(stderr)
            self.proc: Any = self._popen((entrypoint, *map(str, args)), {**os.environ, **env})
            if cpus:  # it runs unbound for a moment; workers of a context do not
                os.sched_setaffinity(self.proc.pid, cpus)
        except BaseException:
            self._close_files()
            raise

    def _popen(self, args: tuple[str, ...], env: dict[str, str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            args=args,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=True,
        )

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Send a signal, by default SIGTERM, to the process group, and close the log files."""
        with suppress(ProcessLookupError):
            os.killpg(self.proc.pid, death_sig or signal.SIGTERM)
        self._close_files()

    def _open(self, path: str | None) -> IO[bytes] | None:
        if not path:
            return None
        file = open(path, "ab")  # noqa: PTH123, SIM115 - a str; it stays open as long as the handler
        self._files.append(file)
        return file

    def _close_files(self) -> None:
        for file in self._files:
            file.close()


def get_subprocess_handler(  # noqa: PLR0917 - the signature is torch's
    entrypoint: str,
    args: tuple[Any, ...],
    env: dict[str, str],
    stdout: str | None,
    stderr: str | None,
    local_rank_id: int,
    numa_options: Any = None,
) -> SubprocessHandler:
    """Start a command; see `SubprocessHandler`."""
    return SubprocessHandler(entrypoint, args, env, stdout, stderr, local_rank_id, numa_options)
