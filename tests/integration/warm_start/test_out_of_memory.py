"""A container whose memory ends, as a real cgroup: the kernel kills what waits first, and a worker is the evidence."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.host.cgroup import CGROUP, OWN_CGROUPS, folders
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.scripted_fleet import ScriptedFleet
from testing.waiting import eventually

pytestmark = pytest.mark.etcd
LIMIT_BYTES = 512 << 20


@pytest.fixture
def container() -> Iterator[Path]:
    """Yield the folder of a memory cgroup with a limit."""
    own = next(iter(folders("memory", CGROUP, OWN_CGROUPS)), None)
    if own is None or os.geteuid() != 0:
        pytest.skip("only root may make a memory cgroup")
    folder = own / f"elasticjob-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        limit = next(each for name in ("memory.limit_in_bytes", "memory.max") if (each := folder / name).exists())
        limit.write_text(str(LIMIT_BYTES))
    except (OSError, StopIteration):
        folder.rmdir()
        pytest.skip("the memory of a cgroup cannot be limited here")
    yield folder
    eventually(lambda: not (folder / "cgroup.procs").read_text(), what="the end of its processes")
    folder.rmdir()


def test_a_warm_worker_that_the_kernel_kills_for_its_memory_is_named(
    container: Path, etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    enter = ("/bin/sh", "-c", f'echo $$ > {container}/cgroup.procs && exec "$@"', "sh")
    job = ScriptedFleet(etcd_server.endpoint.targets[0], tmp_path, "1", 2, inside=enter, is_warm=True)
    try:
        job.begin(1)
        job.await_forked_ahead(1)
        job.give_orders(1, {"0": {"signal": 9}})
        job.await_round(2, 2)
        killed = job.root_cause(1)
        assert (killed.signal, killed.oom) == ("SIGKILL", False)
        job.await_forked_ahead(2)
        job.give_orders(2, {"1": {"fill": True}})
        job.await_round(3, 2)
        assert all(point["warm"] for point in job.running(2))
        filled = job.root_cause(2)
        assert (filled.rank, filled.signal, filled.oom) == (1, "SIGKILL", True)
        job.await_forked_ahead(3)  # what the kernel killed is built again
        job.all_finish()
    finally:
        job.finish()
        job.stop()
