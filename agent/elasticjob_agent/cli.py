"""`elasticjob-agent`: be one node of an elastic job. The process that a pod, or a person, starts."""

import argparse
import asyncio
import contextlib
import importlib.metadata
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from elasticjob_agent import arguments, settings
from elasticjob_agent.arguments import UsageError
from elasticjob_agent.node import run_node
from elasticjob_agent.rendezvous.errors import Superseded, Unreachable
from elasticjob_agent.rendezvous.ports import Outcome
from elasticjob_agent.supervisor import SupervisorError
from elasticjob_api import names
from elasticjob_api.exit_codes import ExitCode
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.server import EtcdServer

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

log = logging.getLogger("elasticjob_agent")


def main() -> None:
    """Run, and exit with the code of the table."""
    sys.exit(run(sys.argv[1:], os.environ))


def run(argv: list[str], environment: Mapping[str, str]) -> int:
    """Be one node; returns the exit code."""
    _log_to_stderr(environment.get(names.ENV_LOG_LEVEL, "info"))
    namespace = arguments.build_parser(environment).parse_args(_after_separator(argv))
    if namespace.version:
        print(f"elasticjob-agent {importlib.metadata.version('elasticjob')}")
        return ExitCode.OK
    try:
        with _log_dir(namespace.log_dir or environment.get(names.ENV_LOG_DIR)) as log_dir:
            outcome = asyncio.run(_run(namespace, environment, log_dir))
    except (UsageError, OSError) as error:
        print(f"elasticjob-agent: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except (Unreachable, EtcdError) as error:
        outcome = Outcome(ExitCode.UNAVAILABLE, str(error))
    except Superseded as error:
        outcome = Outcome(ExitCode.SUPERSEDED, str(error))
    except SupervisorError as error:
        outcome = Outcome(ExitCode.INTERNAL, str(error))
    _say_outcome(outcome, environment.get(names.ENV_TERMINATION_LOG))
    return outcome.code


def _after_separator(argv: list[str]) -> list[str]:
    """`--pod -- command` is `--pod command`: what follows is the command, whatever it looks like."""
    if "--" not in argv:
        return argv
    at = argv.index("--")
    return [*argv[:at], *argv[at + 1 :]]


async def _run(namespace: argparse.Namespace, environment: Mapping[str, str], log_dir: Path) -> Outcome:
    if namespace.pod:
        return await run_node(settings.from_pod(namespace, environment, log_dir))
    settings.check(namespace, environment)
    if namespace.rdzv_backend != "etcd" and not namespace.standalone:
        raise UsageError(f"--rdzv-backend {namespace.rdzv_backend}: only etcd is known (or --standalone)")
    async with _etcd(namespace, log_dir) as targets:
        return await run_node(settings.from_command_line(namespace, environment, log_dir, targets=targets))


@contextlib.asynccontextmanager
async def _etcd(namespace: argparse.Namespace, log_dir: Path) -> AsyncIterator[tuple[str, ...]]:
    if not namespace.standalone:
        yield arguments.parse_endpoint(namespace.rdzv_endpoint)
        return
    server = await EtcdServer.start(log_dir / "etcd")
    try:
        yield server.endpoint.targets
    finally:
        await server.stop()


@contextlib.contextmanager
def _log_dir(wanted: str | None) -> Iterator[Path]:
    """The folder that was asked for, which stays; or one that goes at the end."""
    if wanted:
        Path(wanted).mkdir(parents=True, exist_ok=True)
        yield Path(wanted).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="elasticjob-") as folder:
        yield Path(folder)


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(
        level=_LEVELS.get(level, logging.INFO), format="elasticjob-agent: %(message)s", stream=sys.stderr
    )


def _say_outcome(outcome: Outcome, termination_log: str | None) -> None:
    level = logging.INFO if outcome.code in {ExitCode.OK, ExitCode.LEFT} else logging.ERROR
    log.log(level, "%s (exit code %d)", outcome.detail, outcome.code)
    if termination_log and outcome.code not in {ExitCode.OK, ExitCode.LEFT}:
        with contextlib.suppress(OSError):  # a root file system that is read-only: the log says it anyway
            Path(termination_log).write_text(outcome.detail[:4000])


if __name__ == "__main__":
    main()
