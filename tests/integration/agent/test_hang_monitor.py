"""A suspected hang: the job writes its stacks and reports the suspicion, and continues."""

import sys
from pathlib import Path

import pytest

from elasticjob_api import records
from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_api.records import NodeReport
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.fleet import fleet
from testing.waiting import aeventually, scaled

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
