"""The start and the end of a node's keeper, with its directory."""

import contextlib
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.errors import UsageError
from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.node.keep_dir import KeepDir, KeepDirError, claim_keep_dir
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_etcd.interface import Etcd

_OWN_WORKERS, _ALL_WORKERS = 0o700, 0o1777

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def keeping_steps(settings: KeepSettings, identity: NodeIdentity, etcd: Etcd) -> AsyncIterator[NodeKeep | None]:
    """Yield the kept steps of this node while its keeper runs; None if it has no directory, which is logged.

    At the end of the job, or when the node leaves, the memory is given up. After an error the next agent gets it.
    """
    keep, directory = await _start(settings, identity, etcd)
    is_kept = False
    try:
        yield keep
    except Exception:
        is_kept = True
        raise
    finally:
        if keep is not None:
            await keep.close(erase=not is_kept)
        if directory is not None:
            directory.close()


async def _start(settings: KeepSettings, identity: NodeIdentity, etcd: Etcd) -> tuple[NodeKeep | None, KeepDir | None]:
    directory: KeepDir | None = None
    job = identity.keys.prefix
    try:
        if settings.is_shared:
            directory = claim_keep_dir(settings.directory, job, slot=identity.slot)
        root = settings.directory if directory is None else directory.volume
        settings = replace(settings, size_limit=_usable_bytes(settings.size_limit, root))
        volume = _open_request(settings, identity, root)
        keep = NodeKeep(volume, KeeperLister(etcd, identity.keys), settings)
        await keep.start()
    except KeepDirError as error:
        if settings.persist is not None:  # without a keeper the steps there cannot be restored, and none is given up
            cure = "name a directory in memory that this user may write, such as /dev/shm"
            raise UsageError(f"--keep-dir {settings.directory}: {error}; {cure}") from error
        log.warning("this node keeps no steps: %s", error)
        return None, None
    return keep, directory


def _usable_bytes(limit: int | None, root: Path) -> int | None:
    """Return the limit, or the size of the file system where that is smaller, as on a node with less memory."""
    try:
        found = os.statvfs(root)
    except OSError:
        return limit  # the keeper reports why it cannot use the directory
    size = found.f_blocks * found.f_frsize
    return min(limit, size) if limit and size else limit


def _open_request(settings: KeepSettings, identity: NodeIdentity, root: Path) -> OpenRequest:
    tls, persist = settings.tls, settings.persist
    return OpenRequest(
        str(root),
        identity.keys.prefix,
        size_limit=settings.size_limit,
        workers_mode=_workers_mode(settings),
        host=identity.address,
        certificate="" if tls is None else tls.certificate,
        key="" if tls is None else tls.key,
        authority="" if tls is None else tls.authority,
        persist_to="" if persist is None else str(persist.directory),
        persist_every_s=0.0 if persist is None else persist.every_s,
        persist_keep=0 if persist is None else persist.keep,
        persisted_step=None if persist is None else persist.persisted_step,
    )


def _workers_mode(settings: KeepSettings) -> int:
    """Return the mode of the directory in which scripts publish."""
    # Only below root may a script change its user. In a pod each process is one of the job, in a shared directory not.
    return _ALL_WORKERS if os.geteuid() == 0 and not settings.is_shared else _OWN_WORKERS
