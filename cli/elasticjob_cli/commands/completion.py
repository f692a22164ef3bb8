"""`elasticjob completion`: a script for the shell, made from the parsers of all commands."""

import argparse

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage
from elasticjob_cli.completion import SHELLS, completion_script


def _run(arguments: argparse.Namespace) -> int:
    print(completion_script(arguments.shell), end="")
    return ExitCode.OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


PAGES = {
    "completion": CommandPage(
        description="Print a script for the shell that completes commands, options, their values and names of jobs.",
        examples=(
            ("completion bash > ~/.local/share/bash-completion/completions/elasticjob", ""),
            ('completion zsh > "${fpath[1]}/_elasticjob"', ""),
            ("completion fish > ~/.config/fish/completions/elasticjob.fish", ""),
            ("completion bash | source /dev/stdin", "for this shell only"),
        ),
        configure=_configure,
        run=_run,
    )
}
