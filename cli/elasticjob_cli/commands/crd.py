"""`elasticjob crd`: the CustomResourceDefinition that this version speaks."""

import argparse
from pathlib import Path

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage

_IN_THE_TREE = Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml"


def crd_text() -> str:
    """As it is in the distribution, which may be a zip file; in a working tree, as it is there."""
    from importlib.resources import files  # noqa: PLC0415  # the help need not wait for it

    packaged = files("elasticjob_cli").joinpath("crds/elasticjob.yaml")
    return (packaged if packaged.is_file() else _IN_THE_TREE).read_text(encoding="utf-8")


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
    "crd": CommandPage(
        description="Print the CustomResourceDefinition of ElasticJobs, of this very version.",
        examples=(
            ("crd | kubectl apply --server-side -f -", "install it, or bring it up to date"),
            ("crd | kubectl diff -f -", "what would change"),
        ),
        configure=_configure,
        run=_run,
    )
}
