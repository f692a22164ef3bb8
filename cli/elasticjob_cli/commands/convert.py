"""`elasticjob convert`: the manifest on standard output, what could not be carried over on standard error."""

import argparse
import sys
from pathlib import Path, PurePosixPath

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage
from elasticjob_cli.errors import InvalidManifest

_NOTES = """\
Standard output is the manifest, with the notes as comments in front; standard error has them too. A note says
"left out" for what has no equal here, "changed" for what has another form, "fill in" for what must be written before
the job can run; with one of those the exit code is 1.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="form of the manifest")
    parser.add_argument("--name", default="", metavar="NAME", help="of a job made from a command line")
    parser.add_argument("--image", default="", metavar="IMAGE", help="of a job made from a command line")
    parser.add_argument(
        "source",
        nargs=argparse.REMAINDER,
        metavar="FILE | [--] torchrun ...",
        help="a manifest, - for standard input, or a launcher's command line",
    )


def _run(arguments: argparse.Namespace) -> int:
    from elasticjob_cli.convert import torchrun  # noqa: PLC0415  # the help need not wait for it
    from elasticjob_cli.convert.convert import convert_object, validate  # noqa: PLC0415  # the same
    from elasticjob_cli.output import as_json, as_yaml, read_yaml  # noqa: PLC0415  # the same

    words = [word for i, word in enumerate(arguments.source) if not (i == 0 and word == "--")]
    if not words:
        raise InvalidManifest("nothing to convert; give a manifest, - for standard input, or a line of torchrun")
    if len(words) == 1 and not _is_program(words[0]):
        made = convert_object(read_yaml(words[0]), words[0])
    else:
        made = validate(torchrun.convert(words, name=arguments.name, image=arguments.image))
    for note in made.notes:
        print(note, file=sys.stderr)
    if arguments.output == "json":
        print(as_json(made.manifest), end="")
    else:
        print("".join(f"# {note}\n" for note in made.notes) + as_yaml(made.manifest), end="")
    return ExitCode.OK if made.complete else ExitCode.FAILED


def _is_program(word: str) -> bool:
    return PurePosixPath(word).name in {"torchrun", "dlrover-run"} and not Path(word).is_file()


PAGES = {
    "convert": CommandPage(
        description=(
            "Turn a Kubeflow PyTorchJob, a TorchElastic ElasticJob (elastic.pytorch.org), a DLRover ElasticJob\n"
            "(elastic.iml.github.io) or a command line of torchrun or dlrover-run into an ElasticJob. Every field\n"
            "that cannot be carried over is named, with the reason."
        ),
        examples=(
            ("convert pytorchjob.yaml > job.yaml", ""),
            ("convert pytorchjob.yaml 2>/dev/null | kubectl apply -f -", ""),
            ("convert --image IMAGE -- torchrun --nnodes 2:4 --nproc-per-node 8 train.py", ""),
            ("convert <(kubectl get pytorchjob mnist -o yaml)", "one that runs already"),
        ),
        notes=_NOTES,
        configure=_configure,
        run=_run,
    )
}
