"""`elasticjob run` of a manifest with warm starts: the status shows a restart as warm, and its first output."""

import contextlib
import sys
from typing import Any

import psutil

from testing.waiting import eventually
from tests.integration.cli.runs import Cli

_DEADLINE_S = 120.0
_MOST_ROUNDS = 20
_SCRIPT = """
import decimal, email.mime.text, json, os, pathlib, signal, time
round_ = os.environ["ELASTICJOB_ROUND"]
print("up", round_, flush=True)
order = pathlib.Path("order-" + round_)
while not order.exists():
    time.sleep(0.02)
if order.read_text() == "end":
    raise SystemExit
if os.environ["LOCAL_RANK"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""


def start_of(status: dict[str, Any]) -> dict[str, Any]:
    """Return the start of the only node; empty without one."""
    start: dict[str, Any] = next((node.get("start") or {} for node in status.get("nodes") or ()), {})
    return start


def started(cli: Cli, round_: int) -> dict[str, Any]:
    """Wait until the status has the start of this round's workers; return it."""

    def shown() -> dict[str, Any]:
        if not (cli.folder / "out/job.yaml").exists():
            return {}
        status = cli.resource().get("status") or {}
        return start_of(status) if status.get("rendezvousRound") == round_ else {}

    return eventually(shown, within_s=_DEADLINE_S, what=f"the start of round {round_}", pause_s=0.2)


def order(cli: Cli, round_: int, text: str) -> None:
    """Write the order of this round's workers; they never read an empty file."""
    new = cli.folder / "order"
    new.write_text(text)
    new.rename(cli.folder / f"order-{round_}")


def with_script(cli: Cli) -> int:
    """Return how many processes have the command line of a worker, as a zygote and its forks do."""
    count = 0
    for process in cli.census.found():
        with contextlib.suppress(psutil.Error):
            count += process.cmdline()[1:] == ["train.py"]
    return count


def test_restarted_workers_are_shown_as_warm_and_the_first_as_cold(cli: Cli) -> None:
    (cli.folder / "train.py").write_text(_SCRIPT)
    trainer = {"command": [sys.executable, "train.py"]}
    cli.manifest("", replicas=1, nprocPerNode=2, maxRestarts=50, agent={"warmStart": "Auto"}, container=trainer)
    process = cli.begin_run()
    first = started(cli, 1)
    assert (first["kind"], first["reason"]) == ("Cold", "the first workers record their imports")
    eventually(lambda: with_script(cli) >= 5, within_s=_DEADLINE_S, what="two workers, a zygote and two forks")
    # Should a round begin just before the second worker is ready, it is cold, and the next one is tried.
    for round_ in range(1, _MOST_ROUNDS):
        order(cli, round_, "kill")
        start = started(cli, round_ + 1)
        if start["kind"] == "Warm":
            break
    order(cli, round_ + 1, "end")
    ended = cli.end(process)
    assert ended.code == 0
    [pod] = (path.name for path in (cli.folder / "out/logs").iterdir())
    lines = [line.partition("] ")[2] for line in (ended.out + ended.err).splitlines() if "were started" in line]
    assert lines[0] == f"round 1: the workers of {pod} were started cold: {first['reason']}"
    assert lines[-1] == f"round {round_ + 1}: the workers of {pod} were started warm"
    last = start_of(cli.status())
    assert (last["kind"], last.get("reason") or "", last["firstOutputMilliseconds"] >= 0) == ("Warm", "", True)
