"""Save the current job of a run to the run's folder, so that `watch`, `describe`, `timeline` and `get` can read it.

A reader always finds a complete job: a new file replaces the old one atomically.
"""

import asyncio
import contextlib

import yaml

from elasticjob_cli.local.run_dir import RunDir
from elasticjob_cli.local.run_view import RunView
from elasticjob_operator.model.cluster_interface import Object

_PAUSE_S = 1.0


def as_yaml(job: Object) -> str:
    """Return the job as YAML, in the order of its fields."""
    return yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=120)


def write_resource(folder: RunDir, job: Object) -> None:
    """Write the job; raise OSError and keep the earlier file if that fails."""
    new = folder.resource.with_suffix(".new")
    new.touch(mode=0o600)  # the manifest may contain secret values of the environment
    new.write_text(as_yaml(job), encoding="utf-8")
    new.replace(folder.resource)


async def save_periodically(view: RunView, folder: RunDir, *, pause_s: float = _PAUSE_S) -> None:
    """Write the job after each change, at most once in `pause_s` seconds, until cancelled."""
    saved = view.job
    while True:
        if view.job is saved:
            await view.next_change()
            continue
        saved = view.job
        with contextlib.suppress(OSError):  # the last write, after the end, reports the error
            write_resource(folder, saved)
        await asyncio.sleep(pause_s)
