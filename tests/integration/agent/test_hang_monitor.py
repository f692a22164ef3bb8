"""A suspected hang: the job writes its stacks and reports the suspicion, and continues."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from elasticjob_api import records
from elasticjob_api.constants import ENV_WARM_START
from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_api.records import NodeReport
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.fleet import Fleet, fleet
from testing.waiting import aeventually, eventually, scaled

pytestmark = pytest.mark.etcd

HANGS = """
import os, sys, threading
sys.path.insert(0, sys.argv[1])
import elasticjob_worker as worker
worker.dump_stacks_on_request()
def waits_for_a_peer_that_never_comes():
    while not os.path.exists(sys.argv[2]):
        threading.Event().wait(1)
waits_for_a_peer_that_never_comes()
"""
PLAIN = """
import decimal, gc, os, sys, threading
def waits_cold():
    while not os.path.exists(sys.argv[1] + "/go"):
        threading.Event().wait(1)
def waits_warm():
    waits_cold()
is_warm = gc.get_freeze_count() > 0
with open(sys.argv[1] + "/started", "a") as file:
    file.write("%d %s\\n" % (os.getpid(), is_warm))
waits_warm() if is_warm else waits_cold()
"""
ENDS_OR_HANGS = """
import os, sys, threading
sys.path.insert(0, sys.argv[1])
import elasticjob_worker as worker
if os.environ["RANK"] == "0":
    sys.exit()
worker.dump_stacks_on_request()
def hangs_at_its_end():
    while not os.path.exists(sys.argv[2]):
        threading.Event().wait(1)
hangs_at_its_end()
"""
HELPER = Path(__file__).parents[3] / "agent/elasticjob_agent/user_python/worker"


async def test_a_hang_is_reported_with_stacks_and_nothing_is_stopped(
    etcd_server: EmbeddedEtcd, etcd: EtcdClient, tmp_path: Path
) -> None:
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "1", 1, conf="progress_deadline=1") as job:
        agent = job.start_agent(sys.executable, "-c", HANGS, str(HELPER), str(tmp_path / "go"))
        prefix = Keys(cli_prefix(job.run_id)).reports

        async def stalled() -> list[NodeReport]:
            held = [kv for kv in (await etcd.range(prefix)).kvs if not kv.key.endswith("/samples")]
            reports = [records.decode(NodeReport, kv.value) for kv in held]
            return [report for report in reports if report.stalled_since_ns > 0]

        reports: list[NodeReport] = await aeventually(stalled, within_s=30, what="a report of the hang")
        assert [report.round for report in reports] == [1]
        log = job.log_of(0).read_text()
        assert "they may hang" in log
        assert "in waits_for_a_peer_that_never_comes" in log
        (tmp_path / "go").touch()
        assert agent.wait(scaled(20)) == 0
        assert "restart 1" not in job.log_of(0).read_text()


def test_a_worker_that_hangs_after_its_peer_has_ended_is_reported(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "1", 2, conf="progress_deadline=1") as job:
        agent = job.start_agent(sys.executable, "-c", ENDS_OR_HANGS, str(HELPER), str(tmp_path / "go"))
        eventually(lambda: "in hangs_at_its_end" in job.log_of(0).read_text(), within_s=30, what="stacks")
        assert "rank 0" not in job.log_of(0).read_text()
        (tmp_path / "go").touch()
        assert agent.wait(scaled(20)) == 0


def test_with_warm_starts_a_plain_script_writes_its_stacks(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    """The workers of the first round start cold; those that come after a failure start warm at some time."""
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "1", 2, conf="progress_deadline=1") as job:
        job.environment[ENV_WARM_START] = "Auto"
        agent = job.start_agent(sys.executable, "-c", PLAIN, str(tmp_path))
        await_stacks(job, "in waits_cold")

        def kill_until_warm() -> bool:
            pid, is_warm = (tmp_path / "started").read_text().splitlines()[-1].split()
            if is_warm == "True":
                return True
            if "warm start:" in job.log_of(0).read_text():
                with contextlib.suppress(ProcessLookupError):  # it was killed before, or stopped because of its peer
                    os.kill(int(pid), signal.SIGKILL)
            return False

        eventually(kill_until_warm, within_s=60, what="a warm start")
        await_stacks(job, "in waits_warm")
        (tmp_path / "go").touch()
        assert agent.wait(scaled(20)) == 0


def await_stacks(job: Fleet, words: str) -> None:
    """Wait until a line with these words is in the log for each of both workers."""

    def logged() -> bool:
        lines = [line for line in job.log_of(0).read_text().splitlines() if words in line]
        return all(any(line.startswith(f"[rank{rank}] ") for line in lines) for rank in (0, 1))

    eventually(logged, within_s=30, what=f"stacks of both workers {words}")
