"""`elasticjob run --ui`: the page is served while the run lasts, and not after it."""

import asyncio
import json
import re
import sys
from pathlib import Path

import aiohttp
import pytest

WITHIN_S = 60.0
JOB = """
apiVersion: elasticjob.io/v1alpha1
kind: ElasticJob
metadata: {name: mine}
spec:
  nprocPerNode: 2
  template:
    spec:
      containers: [{name: trainer, image: none, command: [sh, -c, "until test -e done; do sleep 0.1; done"]}]
"""


async def until_it_runs(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        while True:
            line = (await answer.content.readline()).decode()
            job = json.loads(line.removeprefix("data: ")).get("job") if line.startswith("data: ") else None
            if job and job["workers"]["running"] == 2:
                return


@pytest.mark.etcd
async def test_the_page_is_served_while_the_job_runs(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    command = (sys.executable, "-m", "elasticjob_cli.main", "run", "job.yaml", "--ui")
    run = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(WITHIN_S):
            assert run.stdout is not None
            while not (
                found := re.search(r"web page: (http://127\.0\.0\.1:\d+/)#/default/mine", await said(run.stdout))
            ):
                pass
            await until_it_runs(f"{found[1]}api/jobs/default/mine")
            (tmp_path / "done").touch()
            await run.communicate()
            assert run.returncode == 0
            with pytest.raises(aiohttp.ClientConnectionError):
                await until_it_runs(f"{found[1]}api/jobs/default/mine")
    finally:
        if run.returncode is None:
            run.kill()
            await run.wait()


async def said(stream: asyncio.StreamReader) -> str:
    line = (await stream.readline()).decode()
    assert line, "the run ended before it said where its page is"
    return line
