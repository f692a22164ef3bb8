"""`elasticjob run`: the arguments; `elasticjob_cli.local.run` runs the job."""

import argparse
import math
from pathlib import Path

from elasticjob_cli.command import CommandPage
from elasticjob_cli.errors import MissingExtra

_PORTS = 65536
_LEAST_STOP_S = 1.0
_EXTRA = {
    "yaml": "PyYAML",
    "psutil": "psutil",
    "grpc": "grpcio",
    "etcd3": "etcd3",
    "elasticjob_operator": "the operator",
    "aiohttp": "aiohttp",
}
"""Module → name in the error. A local run needs them; an installation for clusters only (krew) lacks them."""

_NOTES = """\
faults: kill-worker[:rank=R], kill-agent[:slot=S], term-agent[:slot=S], delete-pod[:slot=S], scale:N.
Each may have a time: @30% of the progress that the training reports (default: @50%), or @5s after all workers ran.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", metavar="MANIFEST", type=Path, help="file that contains one ElasticJob")
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="folder for the files of the run (default: runs/NAME-TIME-ID)"
    )
    parser.add_argument(
        "--inject", action="append", default=[], metavar="FAULT", help="cause a fault, see below; repeatable"
    )
    parser.add_argument("-o", "--output", choices=("yaml", "json"), help="print the resource at the end")
    parser.add_argument(
        "--etcd-port",
        type=_port,
        metavar="PORT",
        help="serve etcd on a TCP port, open to all users of this machine (default: none)",
    )
    parser.add_argument("--etcd-binary", type=Path, metavar="PATH", help="the etcd to start (default: the one found)")
    parser.add_argument(
        "--ui",
        type=_port,
        nargs="?",
        const=0,
        metavar="PORT",
        help="serve a web page of the run on this machine (default: a free port)",
    )
    parser.add_argument(
        "--stop-timeout",
        type=_seconds,
        metavar="SECONDS",
        default=5.0,
        help="after a signal, kill everything after this time; workers have half of it to end (default: 5)",
    )


def _run(arguments: argparse.Namespace) -> int:
    try:
        from elasticjob_cli.local.run import Options, run_job  # noqa: PLC0415  # the same
        from elasticjob_cli.local.stack import EtcdOptions  # noqa: PLC0415  # --help does not need it
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise MissingExtra(f"{_EXTRA[error.name]} is not installed: pip install 'elasticjob[local]'") from error
    return run_job(
        Options(
            manifest=arguments.manifest,
            run_dir=arguments.run_dir,
            inject=arguments.inject,
            output=arguments.output,
            etcd=EtcdOptions(port=arguments.etcd_port, binary=arguments.etcd_binary),
            ui=arguments.ui,
            stop_timeout_s=arguments.stop_timeout,
        )
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= _PORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 0 to {_PORTS - 1}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not _LEAST_STOP_S <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; give seconds, {_LEAST_STOP_S:g} or more")
    return value


PAGES = {
    "run": CommandPage(
        description=(
            "Run one ElasticJob on this machine, with the same manifest and operator as on Kubernetes. etcd\n"
            "is embedded, and processes take the place of containers. All files of the run are in one folder. Ctrl-C\n"
            "stops everything."
        ),
        examples=(
            ("run job.yaml", ""),
            ("run job.yaml --inject kill-worker", "kill rank 1 at half of its reported progress"),
            ("run job.yaml --inject kill-worker:rank=3@5s", "kill rank 3 five seconds after all workers have started"),
            ("run job.yaml --inject delete-pod:slot=0@30% --inject scale:4@60%", ""),
            ("run job.yaml --ui", "show every rank and round on a web page"),
            ("run job.yaml -o yaml > result.yaml", "keep the resource and its status; stderr has the rest"),
        ),
        notes=_NOTES,
        configure=_configure,
        run=_run,
    )
}
