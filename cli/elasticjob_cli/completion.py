"""Completion scripts for three shells, made from the parsers of all commands.

A script contains commands, options and choices. It gets the names of jobs from `elasticjob get -o name`.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from elasticjob_cli.registry import ENTRIES

_JOBS = "elasticjob get -o name 2>/dev/null | sed 's#.*/##'"
_WITH_FILES = {"run", "convert"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command."""

    flags: tuple[str, ...]
    choices: tuple[str, ...]
    takes_value: bool
    help: str


def options(name: str) -> Iterator[Option]:
    """Yield the options of a command."""
    for action in ENTRIES[name].page().parser(name)._actions:  # noqa: SLF001  # argparse has no other list of them
        if action.option_strings:
            choices = tuple(map(str, action.choices or ()))
            text = "" if action.help in {None, argparse.SUPPRESS} else str(action.help)
            yield Option(tuple(action.option_strings), choices, action.nargs != 0, text.replace("%%", "%"))


def takes_job(name: str) -> bool:
    """Return whether the argument of a command is a job."""
    return any(action.dest == "job" for action in ENTRIES[name].page().parser(name)._actions)  # noqa: SLF001  # as above


def positional_choices(name: str) -> tuple[str, ...]:
    """Return the choices of a command's argument; empty without choices."""
    actions = ENTRIES[name].page().parser(name)._actions  # noqa: SLF001  # as above
    found = [action for action in actions if not action.option_strings and action.choices]
    return tuple(map(str, found[0].choices or ())) if found else ()


def _bash() -> str:
    lines = [
        "# bash completion of elasticjob: `elasticjob completion bash`",
        "_elasticjob() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words="" jobs=""',
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=($(compgen -W "{" ".join(ENTRIES)} --help --version" -- "$cur")); return',
        "  fi",
        '  case "${COMP_WORDS[1]} $prev" in',
    ]
    for name in ENTRIES:
        for option in options(name):
            if option.choices:
                patterns = "|".join(f'"{name} {flag}"' for flag in option.flags)
                lines.append(f'    {patterns}) words="{" ".join(option.choices)}" ;;')
    lines += ["  esac", '  if [ -z "$words" ]; then', '    case "${COMP_WORDS[1]}" in']
    for name in ENTRIES:
        flags = " ".join(flag for option in options(name) for flag in option.flags)
        words = " ".join([flags, *positional_choices(name)])
        lines.append(f'      {name}) words="{words}" jobs="{"yes" if takes_job(name) else ""}" ;;')
    lines += [
        "    esac",
        "  fi",
        '  if [ -n "$jobs" ] && [ "${cur#-}" = "$cur" ]; then',
        f'    words="$({_JOBS})"',
        "  fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "}",
        "complete -o default -F _elasticjob elasticjob",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", ";")


def _zsh() -> str:
    lines = ["#compdef elasticjob", "_elasticjob_jobs() {", f"  compadd -- $({_JOBS})", "}", "_elasticjob() {"]
    lines += ["  if (( CURRENT == 2 )); then", "    local -a commands=("]
    lines += [f"      '{entry.name}:{_quoted(entry.help)}'" for entry in ENTRIES.values()]
    lines += ["    )", "    _describe command commands", "    return", "  fi", "  case $words[2] in"]
    for name in ENTRIES:
        lines.append(f"    {name}) shift words; (( CURRENT-- )); _arguments -s \\")
        for option in options(name):
            for flag in option.flags:
                value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_default"
                lines.append(f"      '{flag}[{_quoted(option.help)}]{value if option.takes_value else ''}' \\")
        if takes_job(name):
            lines.append("      '*:job:_elasticjob_jobs' ;;")
        elif choices := positional_choices(name):
            lines.append(f"      '*:value:({' '.join(choices)})' ;;")
        else:
            lines.append("      '*:file:_files' ;;")
    lines += [
        "  esac",
        "}",
        'if [ "$funcstack[1]" = "_elasticjob" ]; then _elasticjob "$@"; else compdef _elasticjob elasticjob; fi',
    ]
    return "\n".join(lines) + "\n"


def _fish() -> str:
    lines = ["# fish completion of elasticjob", "complete -c elasticjob -f"]
    begin = "complete -c elasticjob -n __fish_use_subcommand"
    lines += [f"{begin} -a {entry.name} -d '{_quoted(entry.help)}'" for entry in ENTRIES.values()]
    for name in ENTRIES:
        begin = f"complete -c elasticjob -n '__fish_seen_subcommand_from {name}'"
        for option in options(name):
            flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
            value = f" -xa '{' '.join(option.choices)}'" if option.choices else (" -r" if option.takes_value else "")
            lines.append(f"{begin} {flags}{value} -d '{_quoted(option.help)}'")
        if takes_job(name):
            lines.append(f'{begin} -a "({_JOBS})"')
        elif choices := positional_choices(name):
            lines.append(f"{begin} -a '{' '.join(choices)}'")
        elif name in _WITH_FILES:
            lines.append(f"{begin} -F")
    return "\n".join(lines) + "\n"


SHELLS: Mapping[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""Name of a shell → the function that returns its script."""
