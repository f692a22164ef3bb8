"""The program that a command's first word starts: Python itself, a script that names it, or something else."""

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

_ELF = b"\x7fELF"
_HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Program:
    """The first word of a command, looked up."""

    name: str
    interpreter: str = ""
    """The program file that runs, without symbolic links; empty if it is not known."""
    is_script: bool = False
    """Whether the first word is a script, so that the other words are its own."""
    is_missing: bool = False


def find_program(argv: tuple[str, ...], environment: Mapping[str, str], cwd: str | None) -> Program:
    """Return the program of this command. A script counts only if its first line names a program, or `env PROGRAM`."""
    name = argv[0]
    path = _look_up(name, environment, cwd)
    if path is None:
        return Program(name, is_missing=True)
    head = _head(path)
    if head.startswith(_ELF):
        return Program(name, str(path.resolve()))
    word = _interpreter_word(head)
    interpreter = _look_up(word, environment, cwd) if word else None
    if interpreter is None or not _head(interpreter).startswith(_ELF):
        return Program(name)
    return Program(name, str(interpreter.resolve()), is_script=True)


def _interpreter_word(head: bytes) -> str:
    """Return the program in the first line of a script, empty if there is none or it is not plain."""
    words = _first_line(head) if head.startswith(b"#!") else []
    if words and PurePath(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S" and "=" not in word]
    return words[0] if words and not words[0].startswith("-") else ""


def _look_up(name: str, environment: Mapping[str, str], cwd: str | None) -> Path | None:
    if "/" in name:
        path = Path(cwd or ".") / name
        return path if path.is_file() else None
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    return Path(found) if found else None


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _first_line(head: bytes) -> list[str]:
    try:
        return shlex.split(head[2:].split(b"\n", 1)[0].decode())
    except ValueError:
        return []
