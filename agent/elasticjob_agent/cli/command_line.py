"""One run without an operator: the etcd of the rendezvous backend is found or started, and the node runs until its end.

A pod does not import this module.
"""

import argparse
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from elasticjob_agent.cli import config
from elasticjob_agent.cli.ignored_options import ignored_option_warnings
from elasticjob_agent.cli.rdzv_backend import ExternalEtcd, RdzvBackend
from elasticjob_agent.node.run_node import NodeSettings, run_node, run_node_until
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.shared_etcd.address import SharedEtcd

if TYPE_CHECKING:
    from elasticjob_etcd.embedded import EmbeddedEtcd

log = logging.getLogger("elasticjob_agent")


async def run_from_command_line(
    namespace: argparse.Namespace, environment: Mapping[str, str], log_dir: Path, received: list[signal.Signals]
) -> Outcome:
    """Run the node; return how it ended. Raise UsageError before anything is started."""
    backend = config.validate(namespace, environment)
    for sentence in ignored_option_warnings(namespace, environment):
        log.warning("%s", sentence)
    async with _etcd(backend) as (targets, server):
        settings = config.from_command_line(namespace, environment, log_dir, targets=targets, backend=backend)
        if server is None:
            return await _run_with_external_etcd(settings, backend, received)
        from elasticjob_agent.shared_etcd.lifetime import wait_etcd_exited, wait_for_others  # noqa: PLC0415  # as below

        outcome = await run_node_until(wait_etcd_exited(server), settings, received)
        if isinstance(backend, SharedEtcd) and outcome.state is not None:
            await wait_for_others(settings.identity.keys, server)
        return outcome


@contextlib.asynccontextmanager
async def _etcd(backend: RdzvBackend) -> "AsyncIterator[tuple[tuple[str, ...], EmbeddedEtcd | None]]":
    """Yield the addresses of etcd, and the server if this agent started it."""
    if isinstance(backend, ExternalEtcd):
        yield backend.targets, None
        return
    # Only an agent that may start an etcd loads the code for it: 10 ms of a start.
    import tempfile  # noqa: PLC0415

    from elasticjob_agent.shared_etcd.lifetime import shared_etcd  # noqa: PLC0415
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
    from elasticjob_agent.shared_etcd.lifetime import wait_owner_gone  # noqa: PLC0415  # as above

    return await run_node_until(wait_owner_gone(backend, settings.endpoint), settings, received)
