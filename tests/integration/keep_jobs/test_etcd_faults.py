"""Jobs that keep steps and whose etcd is wiped or restored from a backup: no step is lost that nodes have."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testing.servers.etcds import OwnEtcd, own_etcd
from testing.waiting import eventually
from tests.integration.keep_jobs.training_fleet import TrainingFleet

Fault = Callable[[OwnEtcd], None]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[OwnEtcd]:
    with own_etcd(tmp_path) as made:
        yield made


@pytest.fixture
def fleet(etcd: OwnEtcd, tmp_path: Path, keep_dir: Path) -> Iterator[TrainingFleet]:
    conf = "keep_alive=6,last_call_timeout=1"
    made = TrainingFleet(etcd.endpoint, tmp_path, "2", 1, keep_dir=keep_dir, size_limit="512Mi", conf=conf)
    yield made
    made.kill_all()


faults = pytest.mark.parametrize("fault", [OwnEtcd.wipe, OwnEtcd.restore], ids=["wiped", "restored from a backup"])


def begin(fleet: TrainingFleet, etcd: OwnEtcd) -> None:
    """Commit step 2 at two nodes; the backup is older than the first step."""
    fleet.begin(2)
    etcd.back_up()
    fleet.train_to(1, 1, 2)
    fleet.train_to(2, 1, 2)
    fleet.await_committed(2, 0, 1)


@faults
def test_after_a_fault_of_etcd_while_steps_are_copied_the_newest_one_is_restored(
    fleet: TrainingFleet, etcd: OwnEtcd, fault: Fault
) -> None:
    fleet.padding = 8 << 20
    begin(fleet, etcd)
    fleet.train_to(3, 1, 2)  # its copies have begun
    fault(etcd)
    fleet.train_to(4, 1, 2)
    fleet.await_committed(4, 0, 1)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 2, within_s=90)
    assert fleet.restored(2) == {4}


@faults
def test_a_fault_of_etcd_does_not_end_the_fetch_of_a_step(fleet: TrainingFleet, etcd: OwnEtcd, fault: Fault) -> None:
    fleet.padding = 24 << 20
    begin(fleet, etcd)
    fleet.kill_agent(1, with_memory=True)
    fleet.run_training()
    receipts = fleet.volumes[2] / "volume" / "part"
    eventually(lambda: [*receipts.glob("*/part-*")] or fleet.held(2), within_s=60, what="a fetch", pause_s=0.001)
    fault(etcd)
    eventually(lambda: len(fleet.running(max(fleet.rounds()))) == 2 and len(fleet.rounds()) > 1, within_s=90)
    assert fleet.restored(max(fleet.rounds())) == {2}


def test_a_new_run_of_the_same_job_restores_nothing_that_an_earlier_run_left_in_memory(
    fleet: TrainingFleet, etcd: OwnEtcd
) -> None:
    begin(fleet, etcd)
    for agent in (0, 1):
        fleet.kill_agent(agent, with_memory=False)
    earlier = fleet.held(0) | fleet.held(1)
    assert earlier
    etcd.wipe()
    fleet.trace.write_text("")
    fleet.run_training()
    fleet.run_training()
    fleet.await_round(1, 2)
    assert fleet.volumes[2:] == fleet.volumes[:2]
    assert fleet.restored(1) == {None}
    # The new run publishes steps of its own meanwhile.
    eventually(lambda: not earlier & (fleet.held(2) | fleet.held(3)), what="nothing of the earlier run is left")
