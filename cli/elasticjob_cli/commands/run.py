"""`elasticjob run`: the arguments, and the call of the column in `elasticjob_cli.local.run`."""

import argparse
from pathlib import Path

from elasticjob_cli.command import CommandPage
from elasticjob_cli.errors import MissingExtra

_PORTS = 65536
_EXTRA = {
    "yaml": "PyYAML",
    "psutil": "psutil",
    "grpc": "grpcio",
    "etcd3": "etcd3",
    "elasticjob_operator": "the operator",
    "aiohttp": "aiohttp",
}
"""What a run needs and an installation for clusters alone (the plugin by krew) does not have."""

_NOTES = """\
faults: kill-worker[:rank=R], kill-agent[:slot=S], term-agent[:slot=S], delete-pod[:slot=S], scale:N,
  each with @SHARE% of the progress that the training reports (50% unless given) or SECONDSs, as @5s
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", metavar="MANIFEST", type=Path, help="file with one ElasticJob")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="folder of the run (default: runs/NAME-TIME-ID)")
    parser.add_argument("--inject", action="append", default=[], metavar="FAULT", help="break something; repeatable")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), help="print the resource in the end")
    parser.add_argument(
        "--etcd-port",
        type=_port,
        metavar="PORT",
        help="give etcd a port, for all users of this machine (default: none)",
    )
    parser.add_argument("--etcd-binary", type=Path, metavar="PATH", help="etcd to start (default: the one found)")
    parser.add_argument(
        "--ui",
        type=_port,
        nargs="?",
        const=0,
        metavar="PORT",
        help="a web page of the run on this machine (a free port)",
    )


def _run(arguments: argparse.Namespace) -> int:
    try:
        from elasticjob_cli.local.run import Options, run_job  # noqa: PLC0415  # the same
        from elasticjob_cli.local.stack import EtcdOptions  # noqa: PLC0415  # `elasticjob run -h` need not wait for it
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
        )
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= _PORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it must be from 0 to {_PORTS - 1}")
    return int(text)


PAGES = {
    "run": CommandPage(
        description=(
            "Run one ElasticJob on this machine: the same manifest and the same operator as on Kubernetes,\n"
            "an embedded etcd, and processes for containers. Everything is kept in one folder; Ctrl-C stops all of it."
        ),
        examples=(
            ("run job.yaml", ""),
            ("run job.yaml --inject kill-worker", "kill rank 1 at half of its reported progress"),
            ("run job.yaml --inject kill-worker:rank=3@5s", "kill rank 3 five seconds after all workers ran"),
            ("run job.yaml --inject delete-pod:slot=0@30% --inject scale:4@60%", ""),
            ("run job.yaml --ui", "every rank and round on a web page, while it runs"),
            ("run job.yaml -o yaml > result.yaml", "the resource with its status; all other lines on stderr"),
        ),
        notes=_NOTES,
        configure=_configure,
        run=_run,
    )
}
