"""Keeps the job of a run as it is now in the run's folder, for `watch`, `describe`, `timeline` and `get` meanwhile.

Whoever reads the file finds a whole job: a new one takes the place of the old one at once.
"""

import asyncio
import contextlib

import yaml

from elasticjob_cli.local.run_dir import RunDir
from elasticjob_cli.local.run_view import RunView
from elasticjob_operator.model.cluster_interface import Object

_PAUSE_S = 1.0


def as_yaml(job: Object) -> str:
    """In the order of the API server."""
    return yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=120)


def write_resource(folder: RunDir, job: Object) -> None:
    """Write it; OSError when it cannot be: what was there before is still there then."""
    new = folder.resource.with_suffix(".new")
    new.touch(mode=0o600)  # its pods have values of the environment, maybe of a manifest that nobody else may read
    new.write_text(as_yaml(job), encoding="utf-8")
    new.replace(folder.resource)


async def save_periodically(view: RunView, folder: RunDir, *, pause_s: float = _PAUSE_S) -> None:
    """Write it after each change, but not more often than once in `pause_s` seconds, until cancelled."""
    kept = view.job
    while True:
        if view.job is kept:
            await view.next_change()
            continue
        kept = view.job
        with contextlib.suppress(OSError):  # the last write, after the end, says it
            write_resource(folder, kept)
        await asyncio.sleep(pause_s)
