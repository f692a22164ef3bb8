"""`elasticjob run` of a manifest with `keep`: a step survives a killed worker, and nothing is left in memory."""

import sys
from pathlib import Path
from typing import Any

from testing.waiting import eventually
from tests.integration.cli.runs import Cli, Ended

_DEADLINE_S = 120.0
_SCRIPT = """
import json, os, pathlib, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
keep = pathlib.Path(os.environ["ELASTICJOB_KEEP"])
print("publishes in", keep, flush=True)
first, total = 0, 20
if kept := os.environ.get("ELASTICJOB_KEPT"):
    parts = sorted(pathlib.Path(kept).iterdir())
    steps = {json.loads(part.read_text())["step"] for part in parts}
    print("restored", *sorted(steps), "from", len(parts), "parts", flush=True)
    [first] = steps
    assert first == int(os.environ["ELASTICJOB_KEPT_STEP"])
for step in range(first + 1, total + 1):
    part = keep / f"tmp-{step}.{rank}"
    part.mkdir()
    (part / f"state-{rank}.json").write_text(json.dumps({"step": step}))
    part.rename(keep / f"step-{step}.{rank}-of-{world}")
    while step == 8 and not os.path.exists("go"):
        time.sleep(0.02)
    if rank == 0:
        with open(os.environ["ELASTICJOB_PROGRESS"], "w") as progress:
            progress.write(json.dumps({"step": step, "total": total}) + "\\n")
    while step == 10 and os.environ["ELASTICJOB_ROUND"] == "1":
        time.sleep(0.02)
"""


def shown_status(cli: Cli) -> dict[str, Any]:
    """Return the status that the run has saved; empty before it."""
    status: dict[str, Any] = (cli.resource().get("status") or {}) if (cli.folder / "out/job.yaml").exists() else {}
    return status


def committed_step(cli: Cli) -> int:
    """Wait until the status has a committed step with a copy; return it."""

    def shown() -> dict[str, Any]:
        kept: dict[str, Any] = shown_status(cli).get("keep") or {}
        return kept if kept.get("step") and kept.get("copies") else {}

    kept = eventually(shown, within_s=_DEADLINE_S, what="a committed step in the status", pause_s=0.2)
    return int(kept["step"])


def printed(ended: Ended, text: str) -> list[str]:
    """Return the rest of each line of a worker that begins with this text."""
    lines = (line.partition("] ")[2] for line in (ended.out + ended.err).splitlines())
    return [line.removeprefix(text).strip() for line in lines if line.startswith(text)]


def test_workers_go_on_from_a_step_in_memory_when_one_of_them_was_killed(cli: Cli) -> None:
    (cli.folder / "train.py").write_text(_SCRIPT)
    cli.manifest("", keep={"sizeLimit": "64Mi"}, container={"command": [sys.executable, "train.py"]})
    process = cli.begin_run("--inject", "kill-worker:rank=1@50%")
    committed = committed_step(cli)
    (cli.folder / "go").touch()
    ended = cli.end(process)
    assert ended.code == 0, ended.out + ended.err
    restored = printed(ended, "restored ")
    assert len(restored) == 2
    assert len(set(restored)) == 1
    assert restored[0].endswith("from 2 parts")
    assert int(restored[0].split()[0]) >= committed
    status = cli.status()
    assert (status["phase"], status["restarts"], status["rendezvousRound"]) == ("Succeeded", 1, 2)
    places = {Path(place) for place in printed(ended, "publishes in ")}
    assert [place for place in places if not place.is_relative_to("/dev/shm") or place.exists()] == []
    shown = cli.end(cli.begin("keep", "out"))
    assert shown.out.startswith("The job has ended, so none of its steps is in memory; step "), shown


def test_the_step_that_was_written_at_the_end_is_in_the_summary_and_in_the_status(cli: Cli) -> None:
    (cli.folder / "train.py").write_text(_SCRIPT.replace('os.environ["ELASTICJOB_ROUND"] == "1"', "False"))
    (cli.folder / "go").touch()
    (cli.folder / "shared").mkdir()
    keep = {"sizeLimit": "64Mi", "persistTo": "/ckpt", "persistEverySeconds": 3600}
    mounted = {"command": [sys.executable, "train.py"], "volumeMounts": [{"name": "v", "mountPath": "/ckpt"}]}
    volumes = [{"name": "v", "hostPath": {"path": str(cli.folder / "shared")}}]
    cli.manifest("", keep=keep, container=mounted, pod={"volumes": volumes})
    ended = cli.run()
    assert ended.code == 0, ended.out + ended.err
    assert "Step 20 is whole in /ckpt" in ended.out
    assert cli.status()["keep"]["persistedStep"] == 20
