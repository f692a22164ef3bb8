"""The kernel may wake gRPC's threads late; nobody else's, and no worker's."""

import sys
import threading
from pathlib import Path

from elasticjob_agent.patience import SLACK_S, patient_threads
from elasticjob_etcd.server import EtcdServer
from tests.faults.fleet import fleet
from tests.faults.waiting import eventually

_SLACK = str(int(SLACK_S * 1e9))


def _slack(thread: int | str) -> str:
    return Path(f"/proc/{thread}/timerslack_ns").read_text().strip()


def _of_grpcs_threads(pid: int) -> set[str]:
    threads = [task.name for task in Path(f"/proc/{pid}/task").iterdir()]
    return {_slack(thread) for thread in threads if Path(f"/proc/{thread}/comm").read_text() == "event_engine\n"}


def test_a_thread_that_is_started_inside_is_patient_and_its_parent_is_not() -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_slack(threading.get_native_id())))
    before = _slack(threading.get_native_id())
    with patient_threads():
        thread.start()
    thread.join()
    assert (found, _slack(threading.get_native_id())) == ([_SLACK], before)


async def test_of_an_agent_grpcs_threads_are_patient_and_neither_its_own_nor_its_worker(tmp_path: Path) -> None:
    server = await EtcdServer.start(tmp_path / "etcd")
    told = tmp_path / "slack"
    script = f"open({str(told)!r}, 'w').write(open('/proc/self/timerslack_ns').read()); import time; time.sleep(600)"
    try:
        with fleet(server.endpoint.targets[0], tmp_path, "1", 1) as job:
            agent = job.start_agent(sys.executable, "-S", "-c", script).pid
            eventually(lambda: told.exists() and told.read_text(), within_s=30, what="the worker's slack")
            assert (_of_grpcs_threads(agent), _slack(agent), told.read_text().strip()) == (
                {_SLACK},
                _slack("self"),
                _slack("self"),
            )
    finally:
        await server.stop()
