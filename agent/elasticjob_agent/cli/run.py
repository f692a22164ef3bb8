"""One run of `elasticjob-agent`: parse the command line, find or start the etcd, run the node, report how it ended."""

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from elasticjob_agent.cli import config
from elasticjob_agent.cli.ignored_options import ignored_option_warnings
from elasticjob_agent.cli.options import UsageError, build_parser
from elasticjob_agent.cli.rdzv_backend import ExternalEtcd, RdzvBackend, SharedEtcd
from elasticjob_agent.node.liveness import serving_liveness
from elasticjob_agent.node.run_node import NodeSettings, run_node, run_node_until
from elasticjob_agent.rendezvous.errors import Superseded, Unreachable
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.supervisor import SupervisorError
from elasticjob_api import constants, log_layout
from elasticjob_api.exit_codes import ExitCode, exit_code_of
from elasticjob_etcd.errors import EtcdError

if TYPE_CHECKING:
    from elasticjob_etcd.embedded import EmbeddedEtcd

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
        return await run_node(config.from_pod(namespace, environment, log_dir), received)
    backend = config.validate(namespace, environment)
    for sentence in ignored_option_warnings(namespace, environment):
        log.warning("%s", sentence)
    async with _etcd(backend) as (targets, server):
        settings = config.from_command_line(namespace, environment, log_dir, targets=targets, backend=backend)
        if server is None:
            return await _run_with_external_etcd(settings, backend, received)
        from elasticjob_agent.cli.shared_etcd import wait_etcd_exited  # noqa: PLC0415  # as below

        outcome = await run_node_until(wait_etcd_exited(server), settings, received)
        if isinstance(backend, SharedEtcd) and outcome.world is not None:
            from elasticjob_agent.cli.shared_etcd import wait_for_others  # noqa: PLC0415  # as below

            await wait_for_others(settings.profile.keys, server)
        return outcome


@contextlib.asynccontextmanager
async def _etcd(backend: RdzvBackend) -> "AsyncIterator[tuple[tuple[str, ...], EmbeddedEtcd | None]]":
    """Yield the addresses of etcd, and the server if this agent started it."""
    if isinstance(backend, ExternalEtcd):
        yield backend.targets, None
        return
    # Only an agent that may start an etcd loads the code for it: 10 ms of a start.
    import tempfile  # noqa: PLC0415

    from elasticjob_agent.cli.shared_etcd import shared_etcd  # noqa: PLC0415
    from elasticjob_etcd.embedded import EmbeddedEtcd  # noqa: PLC0415

    # Not in the log folder: an etcd ends when the workers have filled its disk.
    with tempfile.TemporaryDirectory(prefix="elasticjob-etcd-") as folder:
        if isinstance(backend, SharedEtcd):
            async with shared_etcd(backend, Path(folder)) as reached:
                yield reached.endpoint.targets, reached.server
            return
        server = await EmbeddedEtcd.start(folder)
        try:
            yield server.socket.targets, server
        finally:
            await server.stop()


async def _run_with_external_etcd(
    settings: NodeSettings, backend: RdzvBackend, received: list[signal.Signals]
) -> Outcome:
    """Run a node of a job whose etcd this agent did not start; stop it if the node that started the etcd is gone."""
    if not isinstance(backend, SharedEtcd):
        return await run_node(settings, received)
    from elasticjob_agent.cli.shared_etcd import wait_owner_gone  # noqa: PLC0415  # as above

    return await run_node_until(wait_owner_gone(backend, settings.endpoint), settings, received)


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

    wants_files = not namespace.pod and config.output_of(namespace, environment).wants_files
    if not namespace.log_dir and not wants_files:
        with tempfile.TemporaryDirectory(prefix="elasticjob-") as temporary:
            yield Path(temporary)
        return
    root = Path(namespace.log_dir).absolute() if namespace.log_dir else None
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{namespace.rdzv_id.replace('/', '_')}_", dir=root))
    log.info("logs are in %s", folder)
    yield folder


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
