"""The command `elasticjob`: the command line, and the one place where its errors become sentences and exit codes.

A subcommand is a parser and a function from its arguments to an exit code; what it needs is imported when it runs.
"""

import argparse
import importlib.metadata
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.errors import CliError, MissingExtra

_PORTS = 65536
_EXTRA = {"yaml": "PyYAML"}

_RUN_EPILOG = """\
examples:
  elasticjob run job.yaml
  elasticjob run job.yaml --inject kill-worker            kill rank 1 at half of its reported progress
  elasticjob run job.yaml --inject kill-worker:rank=3@5s  kill rank 3 five seconds after all workers ran
  elasticjob run job.yaml --inject delete-pod:slot=0@30% --inject scale:4@60%
  elasticjob run job.yaml -o yaml > result.yaml           the resource with its status; all other lines on stderr

faults: kill-worker[:rank=R], kill-agent[:slot=S], term-agent[:slot=S], delete-pod[:slot=S], scale:N,
  each with @SHARE% of the progress that the training reports (50% unless given) or SECONDSs, as @5s

exit codes:
  0 succeeded    1 failed, or an injected fault never struck    2 wrong manifest or command line
  124 etcd did not start or ended    125 a fault of elasticjob itself
  126, 127 the workers' command cannot be executed, was not found
  130 stopped by Ctrl-C    141 nobody read the output    143 stopped by SIGTERM or SIGHUP
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Print it and exit."""
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}; see `{self.prog} -h`\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except CliError as error:
        print(f"elasticjob {arguments.name}: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception:  # noqa: BLE001  # the outermost place: a fault of ours is shown whole and has a code of its own
        traceback.print_exc()
        print(
            f"elasticjob {arguments.name}: a fault of elasticjob itself, see above; please report it", file=sys.stderr
        )
        return ExitCode.INTERNAL


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="elasticjob", description="Elastic distributed training, on this machine and on Kubernetes.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="name")
    _add_run(commands)
    version = commands.add_parser("version", help="say which version this is")
    version.set_defaults(command=_print_version)
    return parser


def _add_run(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = commands.add_parser(
        "run",
        help="run a manifest on this machine, with processes for pods",
        description=(
            "Run one ElasticJob on this machine: the same manifest and the same operator as on Kubernetes,\n"
            "an embedded etcd, and processes for containers. Everything is kept in one folder; Ctrl-C stops all of it."
        ),
        epilog=_RUN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("manifest", metavar="MANIFEST", type=Path, help="file with one ElasticJob")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="folder of the run (default: runs/NAME-TIME-ID)")
    parser.add_argument("--inject", action="append", default=[], metavar="FAULT", help="break something; repeatable")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), help="print the resource in the end")
    parser.add_argument("--etcd-port", type=_port, default=0, metavar="PORT", help="port of etcd (default: a free one)")
    parser.add_argument("--etcd-binary", type=Path, metavar="PATH", help="etcd to start (default: the one found)")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        from elasticjob_cli.local.rig import EtcdOptions  # noqa: PLC0415  # `elasticjob version` need not wait for it
        from elasticjob_cli.run import Options, run_job  # noqa: PLC0415  # the same
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
        )
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= _PORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it must be from 0 to {_PORTS - 1}")
    return int(text)


def _version() -> str:
    return f"elasticjob {importlib.metadata.version('elasticjob')}"


def _print_version(_: argparse.Namespace) -> int:
    print(_version())
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
