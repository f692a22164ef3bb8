"""The `elasticjob` program: it parses the command line, and turns errors into sentences and exit codes.

It imports only the module of the chosen command, and nothing large before that runs. `kubectl elasticjob` is the
same program under another name.
"""

import os
import sys
from collections.abc import Callable, Sequence

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli import help_format
from elasticjob_cli.command import PROGRAM, Parser
from elasticjob_cli.command_registry import ENTRIES, GROUPS
from elasticjob_cli.errors import CliError
from elasticjob_cli.exit_codes import CLOSED_OUTPUT, exit_code_lines
from elasticjob_cli.terminal import printable

_PLUGIN = "kubectl-elasticjob"
_GLOBAL = ("-n", "--namespace", "--context", "--kubeconfig")
"""Options of all commands that use a cluster; as with kubectl, they may precede the command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    program = "kubectl elasticjob" if os.path.basename(sys.argv[0]) == _PLUGIN else PROGRAM  # noqa: PTH119 -- pathlib costs a tenth of the start
    words = _command_first(list(sys.argv[1:] if argv is None else argv))
    if not words or words[0] not in ENTRIES:
        return _run_guarded(program, lambda: _without_command(program, words))
    return _run_guarded(f"{program} {words[0]}", lambda: _with_command(program, words[0], words[1:]))


def _with_command(program: str, name: str, rest: Sequence[str]) -> int:
    page = ENTRIES[name].page()
    try:
        arguments = page.parser(name, program=program).parse_args(rest)
    except SystemExit as end:  # the parser has printed the help or the error
        return int(end.code or ExitCode.OK)
    return page.run(arguments)


def _run_guarded(program: str, command: Callable[[], int]) -> int:
    """Run a command; return its exit code, or that of its error."""
    try:
        code = command()
        sys.stdout.flush()
    except CliError as error:
        return _print_error(f"{program}: {error}", error.code)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Otherwise Python flushes again at exit and reports an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = CLOSED_OUTPUT
    except Exception as error:  # noqa: BLE001  # outermost: a bug gets a traceback and its own exit code
        if (known := _code_of_sdk(error)) is not None:
            return _print_error(f"{program}: {error}", known)
        sys.excepthook(type(error), error, error.__traceback__)
        return _print_error(
            f"{program}: this is a bug in elasticjob; please report it with the traceback above", ExitCode.INTERNAL
        )
    return int(code)


def _print_error(sentence: str, code: ExitCode) -> int:
    print(printable(sentence), file=sys.stderr)
    return code


def _command_first(words: list[str]) -> list[str]:
    """Return the words with the command first: `-n team get` becomes `get -n team`."""
    moved: list[str] = []
    while words and words[0].partition("=")[0] in _GLOBAL:
        count = 1 if "=" in words[0] else 2
        moved, words = [*moved, *words[:count]], words[count:]
    return [*words[:1], *moved, *words[1:]] if words else moved


def _without_command(program: str, words: Sequence[str]) -> int:
    parser = Parser(prog=program, usage=f"{program} [-h] [--version] COMMAND ...", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("COMMAND", choices=list(ENTRIES), nargs="?")
    arguments, _ = parser.parse_known_args(words)
    if arguments.help:
        print(help_text(program))
    elif arguments.version:
        return ENTRIES["version"].page().run(arguments)
    else:
        parser.error("the following arguments are required: COMMAND")
    return ExitCode.OK


def help_text(program: str = PROGRAM) -> str:
    """Return the output of `elasticjob --help`."""
    width = max(map(len, ENTRIES)) + 2
    lines = ["Elastic distributed training, on this machine and on Kubernetes.", ""]
    lines += [
        f"usage: {program} COMMAND ...",
        f"       {program} COMMAND --help    arguments and examples of a command",
        "",
    ]
    for title, entries in GROUPS.items():
        lines += [f"{title}:", *(help_format.entry(f"  {entry.name:<{width}}", entry.help) for entry in entries), ""]
    lines += ["examples:", *(f"  {program} {example}" for example in _EXAMPLES), ""]
    return "\n".join([*lines, "exit codes:", exit_code_lines()])


_EXAMPLES = (
    "run job.yaml",
    "get -A",
    "watch digits -n team",
    "logs digits --failed",
    "timeline digits --svg > digits.svg",
    "doctor",
)


def _code_of_sdk(error: Exception) -> ExitCode | None:
    """Return the exit code for an error of the SDK; None for any other error."""
    errors = sys.modules.get("elasticjob.errors")
    if errors is None or not isinstance(error, errors.ElasticJobError):
        return None
    if isinstance(error, (errors.InvalidJob, errors.MissingExtra)):
        return ExitCode.USAGE
    return ExitCode.UNAVAILABLE if isinstance(error, (errors.NoCluster, errors.Unreachable)) else ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main())
