"""A page of docs as a reader follows it: commands after `$` are run, and their output is compared with the page.

A page is true if every line that it shows is printed, and no other. Names of pods, ages, times and output of training
may differ from run to run. A pod that the page names twice must be the same pod twice. A read-only command is repeated
until the page is true or a minute has passed, because a reader is slower than a program.
"""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from e2e.programs import ROOT

_LOOK_S = 60.0
_COMMAND_S = 900.0
_LOOKS = re.compile(r"kubectl (get|logs|events|describe)\b")
_POD = re.compile(r"digits-\d-[a-z0-9]{5}")
_ANYTHING = "…"
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z"), r"[\\dTZ:-]+"),
    (re.compile(r"\b(\d+m)?\d+s\b"), r"\\d\\w*"),
    (re.compile(r'"nodeName":"[^"]*"'), r'"nodeName":"[^"]*"'),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a page, and its output on the page."""

    command: str
    shown: tuple[str, ...]


def steps(page: str) -> list[Step]:
    """Return all commands of a page, or of a part of one, in order."""
    return [Step(command, tuple(shown)) for command, shown in _read(page)]


def _read(page: str) -> Iterator[tuple[str, list[str]]]:
    command, shown = "", list[str]()
    for line in filter(None, page.splitlines()):
        text = line.removeprefix("    ")
        if text == line or text.startswith("$ "):
            if command:
                yield command, shown
            command, shown = text.removeprefix("$ ") if text != line else "", []
        elif text.startswith("> ") and not shown:
            command += "\n" + text.removeprefix("> ")
        elif command:
            shown.append(text)
    if command:
        yield command, shown


@dataclass(slots=True)
class Reader:
    """Runs the commands of a page."""

    environment: Mapping[str, str]
    namespace: str = "default"
    pods: dict[str, str] = field(default_factory=dict)
    """The real pod for each name of the page."""

    def follow(self, step: Step) -> None:
        """Run a step; an AssertionError shows the output that was printed instead."""
        command = _POD.sub(lambda name: self.pods.get(name[0], name[0]), step.command)
        deadline = time.monotonic() + _LOOK_S
        while not self._is_true(step, output := self._type(command)):
            again = _LOOKS.match(command) and time.monotonic() < deadline
            assert again, "\n".join((f"$ {command}", "printed", output, "and the page shows", *step.shown))
            time.sleep(1)

    def _type(self, command: str) -> str:
        line = ["bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(
            line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_COMMAND_S,
            env=dict(self.environment), cwd=ROOT,
        )  # fmt: skip
        return done.stdout

    def _is_true(self, step: Step, output: str) -> bool:
        shown = [line for line in step.shown if line.strip()]
        if _ANYTHING in shown:
            return True
        printed, pods = [line for line in output.splitlines() if line.strip()], dict(self.pods)
        for line in shown:
            found = next((other for other in printed if self._matches(line, other, pods)), None)
            if found is None:
                return False
            printed.remove(found)
        if not printed:
            self.pods = pods
        return not printed

    def _matches(self, shown: str, printed: str, pods: dict[str, str]) -> bool:
        """Whether a line matches; a name of a pod that is new on the page is matched with the printed one."""
        found = re.fullmatch(self._pattern(shown, pods), " ".join(printed.split()))
        if found is None:
            return False
        new = dict(zip((n for n in _POD.findall(shown) if n not in pods), found.groups(), strict=True))
        if set(new.values()) & set(pods.values()):
            return False
        pods.update(new)
        return True

    def _pattern(self, shown: str, pods: Mapping[str, str]) -> str:
        words = re.escape(" ".join(shown.split())).replace(r"\ ", " ").replace(r"\-", "-")
        words = words.replace("default namespace", f"{self.namespace} namespace")
        for varies, pattern in _VARIES:
            words = varies.sub(pattern, words)
        if shown.startswith("[rank"):
            words = re.sub(r"[0-9a-f]{12}|\d+(\\\.\d+)?(e-\d+)?", r"[\\da-f.-]+", words)
        return _POD.sub(lambda name: re.escape(pods[name[0]]) if name[0] in pods else f"({_POD.pattern})", words)
