"""`elasticjob crd`: the CustomResourceDefinition of this version."""

import argparse
from pathlib import Path

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage

_IN_THE_TREE = Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml"


def crd_text() -> str:
    """Return the CRD as YAML, from the installed distribution or from the working tree."""
    from importlib.resources import files  # noqa: PLC0415  # --help does not need it

    # The distribution may be a zip file, which `files` can read.
    packaged = files("elasticjob_cli").joinpath("crds/elasticjob.yaml")
    return (packaged if packaged.is_file() else _IN_THE_TREE).read_text(encoding="utf-8")


def _run(arguments: argparse.Namespace) -> int:
    text = crd_text()
    if arguments.output == "json":
        import yaml  # noqa: PLC0415  # only JSON needs the library

        from elasticjob_cli.yaml_json import as_json  # noqa: PLC0415  # the same

        text = as_json(yaml.safe_load(text))
    print(text, end="")
    return ExitCode.OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="output format (default: yaml)"
    )


PAGES = {
    "crd": CommandPage(
        description="Print the CustomResourceDefinition of ElasticJob that belongs to this version.",
        examples=(
            ("crd | kubectl apply --server-side -f -", "install or update it"),
            ("crd | kubectl diff -f -", "show the changes first"),
        ),
        configure=_configure,
        run=_run,
    )
}
