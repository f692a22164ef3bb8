"""Completion scripts for several shells, made by shtab from the parsers of all commands.

shtab completes commands, options and choices. This module adds what no parser knows: names of jobs, and files.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from elasticjob_cli.command import PROGRAM
from elasticjob_cli.command_registry import ENTRIES
from elasticjob_cli.errors import MissingExtra

SHELLS = ("bash", "fish", "zsh")
_NAMES = "elasticjob get -o name 2>/dev/null | sed 's#.*/##'"
_JOBS = {"bash": "_elasticjob_jobs", "zsh": "_elasticjob_jobs", "fish": f"({_NAMES})"}
_FUNCTIONS = {
    "bash": f'_elasticjob_jobs() {{ compgen -W "$({_NAMES})" -- "$1" || compgen -d -- "$1"; }}',
    "zsh": f"_elasticjob_jobs() {{ compadd -- $({_NAMES}) || _files -/; }}",
}
_FILES = frozenset({"manifest", "source", "run_dir", "etcd_binary", "kubeconfig"})
"""Arguments whose value is a file or a folder."""


def completion_script(shell: str) -> str:
    """Return the script for `shell`; raise MissingExtra without shtab."""
    try:
        import shtab  # noqa: PLC0415  # only this command needs it
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "shtab, which writes completion scripts, is not installed: pip install 'elasticjob[cli]'"
        ) from error
    script: str = shtab.complete(_all_commands(shtab.FILE), shell, preamble=_FUNCTIONS.get(shell, ""))
    return f"{script.rstrip()}\n"


def _all_commands(file: Mapping[str, Any]) -> argparse.ArgumentParser:
    """Return one parser with all commands, in which arguments have shtab's attribute `complete`."""
    parser = argparse.ArgumentParser(PROGRAM)
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers()
    for name, entry in ENTRIES.items():
        command = commands.add_parser(name, help=entry.help)
        entry.page().configure(command)
        for action in command._actions:  # noqa: SLF001  # argparse has no other list of them
            if action.dest == "job" or action.dest in _FILES:
                vars(action)["complete"] = _JOBS if action.dest == "job" else file
    return parser
