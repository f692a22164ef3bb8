"""A command: its description, examples, arguments, and the function that runs it.

The catalog names the module of each command, so that only the one that is asked for is imported.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.help_format import examples, paragraph

PROGRAM = "elasticjob"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Print it and exit."""
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}{_with_suggestion(message)}; see `{self.prog} -h`\n")


def _with_suggestion(message: str) -> str:
    """For a choice that there is not: the one that looks like it."""
    head, invalid, rest = message.partition("invalid choice: ")
    if not (invalid and head):
        return ""
    import difflib  # noqa: PLC0415  # only for this sentence

    given, _, choices = rest.partition(" (choose from ")
    known = [choice.strip(" '\")") for choice in choices.split(",")]
    close = difflib.get_close_matches(given.strip("'\""), known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPage:
    """One command."""

    description: str
    examples: Sequence[tuple[str, str]]
    """A command line without the program's name, and what it does."""
    configure: Callable[[argparse.ArgumentParser], Any]
    """Adds its arguments."""
    run: Callable[[argparse.Namespace], int]
    """Does it; returns the exit code."""
    notes: str = ""
    """What else its help says, after the examples."""

    def parser(self, name: str, *, program: str = PROGRAM) -> Parser:
        """The parser of this command."""
        parser = Parser(
            prog=f"{program} {name}",
            description=paragraph(self.description),
            epilog=self._epilog(program),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.configure(parser)
        return parser

    def _epilog(self, program: str) -> str:
        lines = examples([(f"{program} {command}", remark) for command, remark in self.examples])
        notes = f"\n{paragraph(self.notes)}\n" if self.notes else ""
        return "\n".join(["examples:", *lines, notes, f"exit codes: `{program} --help`"])
