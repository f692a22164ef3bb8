"""`elasticjob crd`: the CustomResourceDefinition that this version speaks."""

import argparse
from pathlib import Path

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.page import Page

_NAME = "elasticjob.yaml"
_PACKAGED = Path(__file__).resolve().parents[1] / "crds" / _NAME
_IN_THE_TREE = Path(__file__).resolve().parents[3] / "crds" / _NAME


def crd_text() -> str:
    """As it is in the distribution; in a working tree, as it is there."""
    path = _PACKAGED if _PACKAGED.is_file() else _IN_THE_TREE
    return path.read_text(encoding="utf-8")


def _run(arguments: argparse.Namespace) -> int:
    text = crd_text()
    if arguments.output == "json":
        import yaml  # noqa: PLC0415  # the usual form needs no library

        from elasticjob_cli.output import as_json  # noqa: PLC0415  # the same

        text = as_json(yaml.safe_load(text))
    print(text, end="")
    return ExitCode.OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="its form")


PAGES = {
    "crd": Page(
        description="Print the CustomResourceDefinition of ElasticJobs, of this very version.",
        examples=(
            ("crd | kubectl apply --server-side -f -", "install it, or bring it up to date"),
            ("crd | kubectl diff -f -", "what would change"),
        ),
        configure=_configure,
        run=_run,
    )
}
