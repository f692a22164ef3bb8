"""`elasticjob convert`: the manifest goes to standard output, notes about what differs to standard error."""

import argparse
import sys
from pathlib import Path, PurePosixPath

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage
from elasticjob_cli.errors import InvalidManifest

_NOTES = """\
The manifest goes to standard output, with the notes as comments at its top; the notes also go to standard error.
A note begins with "left out" (no equivalent here), "changed" (in another form) or "fill in" (add it before the job
can run). If anything must be filled in, the exit code is 1.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="format of the manifest")
    parser.add_argument("--name", default="", metavar="NAME", help="name of a job that is made from a command line")
    parser.add_argument("--image", default="", metavar="IMAGE", help="image of a job that is made from a command line")
    parser.add_argument(
        "source",
        nargs=argparse.REMAINDER,
        metavar="FILE | [--] torchrun ...",
        help="a manifest, - for standard input, or the command line of a launcher",
    )


def _run(arguments: argparse.Namespace) -> int:
    from elasticjob_cli.convert import torchrun  # noqa: PLC0415  # --help does not need it
    from elasticjob_cli.convert.convert import convert_object, validate  # noqa: PLC0415  # the same
    from elasticjob_cli.yaml_json import as_json, as_yaml, read_yaml  # noqa: PLC0415  # the same

    words = [word for i, word in enumerate(arguments.source) if not (i == 0 and word == "--")]
    if not words:
        raise InvalidManifest("nothing to convert; give a manifest, - for standard input, or a torchrun command line")
    if len(words) == 1 and not _is_program(words[0]):
        result = convert_object(read_yaml(words[0]), words[0])
    else:
        result = validate(torchrun.convert(words, name=arguments.name, image=arguments.image))
    for note in result.notes:
        print(note, file=sys.stderr)
    if arguments.output == "json":
        print(as_json(result.manifest), end="")
    else:
        print("".join(f"# {note}\n" for note in result.notes) + as_yaml(result.manifest), end="")
    return ExitCode.OK if result.complete else ExitCode.FAILED


def _is_program(word: str) -> bool:
    return PurePosixPath(word).name in {"torchrun", "dlrover-run"} and not Path(word).is_file()


PAGES = {
    "convert": CommandPage(
        description=(
            "Convert a Kubeflow PyTorchJob, a TorchElastic ElasticJob (elastic.pytorch.org), a DLRover ElasticJob\n"
            "(elastic.iml.github.io) or a command line of torchrun or dlrover-run to an ElasticJob. A note names\n"
            "every field that is not carried over, with the reason."
        ),
        examples=(
            ("convert pytorchjob.yaml > job.yaml", ""),
            ("convert pytorchjob.yaml 2>/dev/null | kubectl apply -f -", ""),
            ("convert --image IMAGE -- torchrun --nnodes 2:4 --nproc-per-node 8 train.py", ""),
            ("convert <(kubectl get pytorchjob mnist -o yaml)", "a job on the cluster"),
        ),
        notes=_NOTES,
        configure=_configure,
        run=_run,
    )
}
