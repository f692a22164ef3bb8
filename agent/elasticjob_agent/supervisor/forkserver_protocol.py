"""Protocol between the agent and its fork server: messages as the agent encodes and parses them.

The socket keeps message boundaries, so a message is a few ASCII words. A worker's command may be large: it travels as a
memory file beside its `spawn` message. Its fields are separated by NUL. Neither arguments nor environment can contain
that byte, and all others pass unchanged.

A worker waits at its latch, an eventfd, before its command begins. The agent opens the latches when all workers of a
batch are forked. So a fork server that hangs between two of them can be replaced, and no command runs twice.

    agent → fork server   spawn NUMBER COUNT (+ descriptors: command, stdout, stderr, latch, others)
                          zygote NUMBER COUNT (as `spawn`)      the same, for a process that no round ends
                          adopt NUMBER 1 (+ a socket)           a zygote forks a worker, which reports on the socket
                          use NUMBER COUNT (as `spawn`)         that worker becomes this command
                          signal REQUEST SIGNAL NUMBER,…      answered by `done` when these process groups are empty
                          kill REQUEST NUMBER,…               answered by `done` when nothing of these trees is left
                          ping QUESTION                       answered by `pong` at once
    fork server → agent   ready · refused REASON… · pong QUESTION · preforked NUMBER PID
                          started NUMBER PID WALL_NS · failed NUMBER ERRNO STAGE · lost NUMBER REASON…
                          exited NUMBER STATUS STOPPED AT_S WALL_NS · done REQUEST

`exited` and `failed` are sent after the process was reaped, and before any `done` that waited for it. `lost` is the
`failed` of a worker that a zygote forks: its command can still be started by `spawn`.
"""

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.supervisor.errors import CommandNotExecutable, CommandNotFound, StartError
from elasticjob_agent.supervisor.process_types import Command, Exit


@dataclass(frozen=True, slots=True)
class Ready:
    """The fork server accepts commands."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The fork server does not start, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The fork server has read the `ping` of this number, and all messages before it."""

    number: int


@dataclass(frozen=True, slots=True)
class Preforked:
    """This worker was forked by a zygote and waits for a command."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class Started:
    """This worker runs its command."""

    number: int
    pid: int
    wall_ns: int


@dataclass(frozen=True, slots=True)
class Failed:
    """This worker could not execute its command, and has been reaped."""

    number: int
    errno: int
    stage: str


@dataclass(frozen=True, slots=True)
class Lost:
    """This worker, which a zygote should have forked, does not become a command."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """This worker has ended and was reaped."""

    number: int
    exit: Exit


@dataclass(frozen=True, slots=True)
class Done:
    """The wait of this request is over."""

    request: int


Event = Ready | Refused | Answer | Preforked | Started | Failed | Lost | Exited | Done


def parse(message: bytes) -> Event:
    """Return the event in one message of the fork server."""
    if message.startswith(b"refused "):
        return Refused(message.removeprefix(b"refused ").decode(errors="replace"))
    kind, *words = message.decode("ascii").split()
    event: Event
    match kind, words:
        case "ready", []:
            event = Ready()
        case "pong", [number]:
            event = Answer(int(number))
        case "preforked", [number, pid]:
            event = Preforked(int(number), int(pid))
        case "started", [number, pid, wall_ns]:
            event = Started(int(number), int(pid), int(wall_ns))
        case "failed", [number, code, stage]:
            event = Failed(int(number), int(code), stage)
        case "lost", [number, *reason]:
            event = Lost(int(number), " ".join(reason))
        case "exited", [number, status, stopped, at_s, wall_ns]:
            event = Exited(int(number), _exit(int(status), stopped, float(at_s), int(wall_ns)))
        case "done", [request]:
            event = Done(int(request))
        case _:
            raise AssertionError(f"the fork server sent {message!r}, which is not a message of the protocol")
    return event


def _exit(status: int, stopped: str, at_s: float, wall_ns: int) -> Exit:
    return Exit(
        code=os.waitstatus_to_exitcode(status),
        stopped_by_us=stopped == "1",
        at_s=at_s,
        wall_ns=wall_ns,
        core_dumped=os.WCOREDUMP(status),
    )


def encode_message(kind: str, *numbers: int, of: Iterable[int] = ()) -> bytes:
    """Return one message to the fork server: the kind, its numbers, and the workers that it is about."""
    return " ".join([kind, *map(str, numbers), *([",".join(map(str, of))] if of else [])]).encode("ascii")


def encode(command: Command) -> bytes:
    """Return the command as the worker reads it before its exec.

    Raises:
        StartError: no process can have such a command.
    """
    if not command.argv or not command.argv[0]:
        raise StartError(f"{command.name}: cannot be started: its command is empty")
    for key in command.env:
        if not key or "=" in key:
            raise StartError(
                f"{command.name}: cannot be started: {key!r} is not a valid name of an environment variable"
            )
    env = [f"{key}={value}" for key, value in command.env.items()]
    cpus = ",".join(map(str, sorted(command.cpus)))
    fields = [cpus, command.cwd or "", str(len(command.argv)), *command.argv, *env]
    for field in fields:
        if "\0" in field:
            raise StartError(f"{command.name}: cannot be started: {field!r} contains a NUL byte; remove it")
    return b"\0".join(map(os.fsencode, fields))


def start_error(command: Command, failed: Failed) -> StartError:
    """Return an error with the reason why this command could not be started."""
    error = _start_error(command, failed)
    error.errno = failed.errno
    return error


def _start_error(command: Command, failed: Failed) -> StartError:
    reason = os.strerror(failed.errno)
    if failed.stage == "cwd":
        return StartError(f"{command.name}: cannot enter its working directory {command.cwd!r}: {reason}")
    if failed.stage == "cpus":
        return StartError(f"{command.name}: cannot be bound to processors {sorted(command.cpus)}: {reason}")
    if failed.stage != "exec":
        return StartError(f"{command.name}: cannot be started ({failed.stage}): {reason}")
    if failed.errno in {errno.ENOENT, errno.ENOTDIR}:
        return _not_found(command)
    word = command.argv[0]
    if failed.errno in {errno.EACCES, errno.ENOEXEC, errno.EISDIR, errno.EPERM}:
        return CommandNotExecutable(
            f"{command.name}: command {word!r} cannot be executed: {reason}; "
            "it needs the x bit, and to be a program or a script whose first line names its interpreter",
            command=word,
        )
    return StartError(f"{command.name}: command {word!r} cannot be started: {reason}")


def _not_found(command: Command) -> CommandNotFound:
    word, path = command.argv[0], command.env.get("PATH", os.defpath)
    where = Path(command.cwd or ".") / word
    if "/" not in word:
        why = f"no folder of its PATH has it; PATH is {path!r}"
    elif where.exists():
        why = "the file exists, but the interpreter in its first line, or the loader it was linked for, does not"
    else:
        why = f"no such file; PATH ({path!r}) is not searched for a name with a slash"
    return CommandNotFound(f"{command.name}: command {word!r} not found: {why}", command=word, path=path)
