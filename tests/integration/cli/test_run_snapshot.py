"""The job in the folder of a run, during the run."""

import asyncio
from pathlib import Path

from elasticjob_cli.local.run_dir import RunDir
from elasticjob_cli.local.run_snapshot import save_periodically, write_resource
from elasticjob_cli.local.run_view import RunView
from elasticjob_cli.target import recorded
from testing.waiting import aeventually


async def test_the_folder_of_a_run_has_the_job_as_it_is_now(tmp_path: Path) -> None:
    view, folder = RunView(), RunDir(tmp_path)
    write_resource(folder, {"metadata": {"name": "j"}})
    keeping = asyncio.create_task(save_periodically(view, folder, pause_s=0.01))
    for phase in ("Starting", "Running"):
        await aeventually(lambda: view._waiters, what="it waits for changes")
        view.job = {"metadata": {"name": "j"}, "status": {"phase": phase}}
        view.changed()
        await aeventually(lambda wanted=view.job: recorded(tmp_path).job == wanted)
    keeping.cancel()
    await asyncio.wait([keeping])
    assert not folder.resource.with_suffix(".new").exists()
