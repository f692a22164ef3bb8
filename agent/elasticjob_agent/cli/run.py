"""One run of `elasticjob-agent`: parse the command line, find or start the etcd, run the node, report how it ended."""

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from elasticjob_agent.cli.options import build_parser
from elasticjob_agent.cli.pod_config import from_pod
from elasticjob_agent.errors import UsageError
from elasticjob_agent.node.liveness import serving_liveness
from elasticjob_agent.node.run_node import run_node
from elasticjob_agent.rendezvous.errors import Superseded, Unreachable
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.supervisor import SupervisorError
from elasticjob_api import constants, log_layout
from elasticjob_api.exit_codes import ExitCode, exit_code_of
from elasticjob_etcd.errors import EtcdError

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"

log = logging.getLogger("elasticjob_agent")


def run(argv: list[str], environment: Mapping[str, str]) -> int:
    """Run one node and return the exit code."""
    _log_to_stderr(environment.get(constants.ENV_LOG_LEVEL) or environment.get("LOGLEVEL") or "info")
    received: list[signal.Signals] = []
    try:
        namespace = build_parser(environment).parse_args(_after_separator(argv))
        if namespace.version:
            print(f"elasticjob-agent {_version()}")
            return ExitCode.OK
        with _log_dir(namespace, environment) as log_dir:
            outcome = asyncio.run(_run(namespace, environment, log_dir, received))
    except (UsageError, OSError) as error:
        print(f"{log_layout.AGENT_PREFIX}{error}", file=sys.stderr)
        return ExitCode.USAGE
    except (Unreachable, EtcdError) as error:
        outcome = Outcome(ExitCode.UNAVAILABLE, str(error))
    except Superseded as error:
        outcome = Outcome(ExitCode.SUPERSEDED, str(error))
    except SupervisorError as error:
        outcome = Outcome(ExitCode.INTERNAL, str(error))
    return _exit(outcome, received, environment)


def _version() -> str:
    import importlib.metadata  # noqa: PLC0415  # 15 ms and 3 MB that a normal run does not need

    return importlib.metadata.version("elasticjob")


def _after_separator(argv: list[str]) -> list[str]:
    """Return the arguments without the first `--`: `--pod -- command` is the same as `--pod command`."""
    if "--" not in argv:
        return argv
    at = argv.index("--")
    return [*argv[:at], *argv[at + 1 :]]


# -- one run -----------------------------------------------------------------------------------------


async def _run(
    namespace: argparse.Namespace, environment: Mapping[str, str], log_dir: Path, received: list[signal.Signals]
) -> Outcome:
    async with serving_liveness(environment):
        return await _run_node(namespace, environment, log_dir, received)


async def _run_node(
    namespace: argparse.Namespace, environment: Mapping[str, str], log_dir: Path, received: list[signal.Signals]
) -> Outcome:
    if namespace.pod:
        return await run_node(from_pod(namespace, environment, log_dir), received)
    from elasticjob_agent.cli.command_line import run_from_command_line  # noqa: PLC0415  # a pod does not need it

    return await run_from_command_line(namespace, environment, log_dir, received)


# -- files -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _log_dir(namespace: argparse.Namespace, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the log folder: the pod's, or a new one in --log-dir, or a temporary one that is deleted at the end."""
    if environment.get(constants.ENV_LOG_DIR) and not namespace.log_dir:
        folder = Path(environment[constants.ENV_LOG_DIR])
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.absolute()
        return
    import tempfile  # noqa: PLC0415  # a megabyte that an agent in a pod does not need

    if not namespace.log_dir and not _wants_files(namespace, environment):
        with tempfile.TemporaryDirectory(prefix="elasticjob-") as temporary:
            yield Path(temporary)
        return
    root = Path(namespace.log_dir).absolute() if namespace.log_dir else None
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{namespace.rdzv_id.replace('/', '_')}_", dir=root))
    log.info("logs are in %s", folder)
    yield folder


def _wants_files(namespace: argparse.Namespace, environment: Mapping[str, str]) -> bool:
    if namespace.pod:
        return False
    from elasticjob_agent.cli.config import output_of  # noqa: PLC0415  # a pod does not need it

    return output_of(namespace, environment).wants_files


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(
        level=_LEVELS.get(level.lower(), logging.INFO),
        format=f"{log_layout.AGENT_PREFIX}%(message)s",
        stream=sys.stderr,
    )


# -- the end -----------------------------------------------------------------------------------------


def _exit(outcome: Outcome, received: list[signal.Signals], environment: Mapping[str, str]) -> int:
    """Write the outcome to the log, the termination log and the error file. Return the exit code.

    For a signal the exit code is 128 + its number.
    """
    left = outcome.code == ExitCode.LEFT
    code = exit_code_of(-received[0]) if left and received else outcome.code
    good = left or code == ExitCode.OK
    log.log(logging.INFO if good else logging.ERROR, "%s", log_layout.end_message(outcome.detail, code))
    if not good:
        _write(environment.get(constants.ENV_TERMINATION_LOG), outcome.detail[:4000])
        _write(environment.get(_ERROR_FILE), _error_record(outcome.detail, code))
    return code


def _error_record(detail: str, code: int) -> str:
    """Return the content of an error file in the format that torchrun writes for its parent."""
    extra = {"py_callstack": "", "timestamp": str(int(time.time()))}
    return json.dumps({"message": {"message": detail, "extraInfo": extra, "errorCode": code}})


def _write(path: str | None, text: str) -> None:
    if path:
        with contextlib.suppress(OSError):  # the root file system may be read-only; the log has the text anyway
            Path(path).write_text(text)
