"""`elasticjob version`: the versions of this program, of its CRD and of Python."""

import argparse
import importlib.metadata
import platform

from elasticjob_api import constants
from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage


def version() -> str:
    """Return the version of the installed distribution."""
    return importlib.metadata.version("elasticjob")


def _run(arguments: argparse.Namespace) -> int:
    text = f"elasticjob {version()}"
    if getattr(arguments, "long", False):
        text += f"\nresource {constants.PLURAL}.{constants.API_VERSION}\npython {platform.python_version()}"
    print(text)
    return ExitCode.OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--long", action="store_true", help="also print the API version and the version of Python")


PAGES = {
    "version": CommandPage(
        description="Print the version. `elasticjob doctor` compares it with the operator's.",
        examples=(("version", ""), ("version --long", "with the API version and the version of Python")),
        configure=_configure,
        run=_run,
    )
}
