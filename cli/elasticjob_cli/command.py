"""A command of the program: its description, examples, arguments, and the function that runs it.

The registry names the module of each command, so that the program imports only the command that is run.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.help_format import examples, paragraph

PROGRAM = "elasticjob"


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Print the error with a suggestion, and exit with `ExitCode.USAGE`."""
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}{_with_suggestion(message)}; see `{self.prog} -h`\n")


def _with_suggestion(message: str) -> str:
    """Return a suggestion for an invalid choice; empty for any other error."""
    head, invalid, rest = message.partition("invalid choice: ")
    if not (invalid and head):
        return ""
    import difflib  # noqa: PLC0415  # only an error needs it

    given, _, choices = rest.partition(" (choose from ")
    known = [choice.strip(" '\")") for choice in choices.split(",")]
    close = difflib.get_close_matches(given.strip("'\""), known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPage:
    """The help page and the function of one command."""

    description: str
    examples: Sequence[tuple[str, str]]
    """Pairs of a command line, without the program's name, and a remark, which may be empty."""
    configure: Callable[[argparse.ArgumentParser], Any]
    """The function that adds the arguments to the parser."""
    run: Callable[[argparse.Namespace], int]
    """The function that runs the command and returns the exit code."""
    notes: str = ""
    """The paragraph of the help after the examples."""

    def parser(self, name: str, *, program: str = PROGRAM) -> Parser:
        """Return the parser of this command."""
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
