"""The soak's trainer finds what it is there to find."""

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from testing.network.ports import unused_port
from tests.soak import trainer
from tests.soak.trainer import Fenced, LostPeer, Star, Store, Violation, part_of, result_alone

STEPS = 20


def worker(folder: Path, round_: int = 1, steps: int = STEPS) -> int:
    """The exit code of a round of one worker."""
    env = {"ELASTICJOB_ROUND": str(round_), "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, "-S", trainer.__file__, str(folder), str(steps), "0"]
    return subprocess.run(command, env={**env, "MASTER_PORT": "0"}, check=False, timeout=60).returncode


def violation(folder: Path) -> str:
    return (folder / "violation").read_text()


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_any_number_of_ranks_computes_the_same(world_size: int) -> None:
    state = 1
    for step in range(1, STEPS + 1):
        state = sum(part_of(state, step, rank, world_size) for rank in range(world_size)) % trainer.PRIME
    assert state == result_alone(STEPS)


def test_training_goes_on_from_the_newest_checkpoint_and_ends_with_the_right_result(tmp_path: Path) -> None:
    assert worker(tmp_path) == 0
    assert worker(tmp_path, round_=2, steps=2 * STEPS) == 0
    assert (tmp_path / "result").read_text() == str(result_alone(2 * STEPS))
    newest = json.loads(json.loads((tmp_path / "step-00000040.json").read_text())["body"])
    assert newest["lineage"] == [[1, 1, 1, 20], [2, 1, 21, 40]]


def test_a_lost_checkpoint_is_a_violation(tmp_path: Path) -> None:
    worker(tmp_path)
    (tmp_path / "step-00000020.json").unlink()
    assert worker(tmp_path, round_=2) == 99
    assert "checkpoint lost: step 20 was saved, the newest there is 10" in violation(tmp_path)


def test_a_damaged_checkpoint_is_a_violation(tmp_path: Path) -> None:
    worker(tmp_path)
    path = tmp_path / "step-00000020.json"
    path.write_text(path.read_text().replace('step\\": 20', 'step\\": 21'))
    assert worker(tmp_path, round_=2) == 99
    assert "damaged" in violation(tmp_path)


def test_a_wrong_state_is_a_violation_at_the_end(tmp_path: Path) -> None:
    store = Store(tmp_path, 1)
    store.begin()
    store.save({"step": 10, "state": 4711, "lineage": [[1, 1, 1, 10]]})
    assert worker(tmp_path, round_=2) == 99
    assert "wrong result" in violation(tmp_path)


def test_a_lineage_with_a_gap_is_a_violation(tmp_path: Path) -> None:
    store = Store(tmp_path, 1)
    store.begin()
    store.save({"step": 10, "state": 1, "lineage": [[1, 1, 3, 10]]})
    assert worker(tmp_path, round_=2) == 99
    assert "broken lineage" in violation(tmp_path)


def test_a_round_that_saves_a_step_again_is_a_violation(tmp_path: Path) -> None:
    store = Store(tmp_path, 1)
    store.begin()
    store.save({"step": 10, "state": 1, "lineage": [[1, 1, 1, 10]]})
    with pytest.raises(Violation, match="saved twice"):
        store.save({"step": 10, "state": 1, "lineage": [[1, 1, 1, 10]]})


def test_a_round_that_was_followed_by_another_is_fenced(tmp_path: Path) -> None:
    early = Store(tmp_path, 1)
    early.begin()
    Store(tmp_path, 2).begin()
    with pytest.raises(Fenced, match="round 2 has begun, this is round 1"):
        early.save({"step": 10, "state": 1, "lineage": [[1, 1, 1, 10]]})
    assert worker(tmp_path, round_=1) == 3


def test_ranks_meet_only_those_of_their_own_round() -> None:
    port = unused_port()
    hub, peer, stranger = Star(0, 2, 7), Star(1, 2, 7), Star(1, 2, 6, patience_s=0.2)
    sums: list[int] = []

    def lead() -> None:
        hub.meet("127.0.0.1", port)
        sums.append(hub.total(1))

    leading = threading.Thread(target=lead)
    leading.start()
    with contextlib.closing(hub), contextlib.closing(peer):
        with pytest.raises(LostPeer, match=r"does not know rank 1|cannot reach rank 0"):
            stranger.meet("127.0.0.1", port)
        peer.meet("127.0.0.1", port)
        assert peer.total(2) == 3
        leading.join(30)
    assert sums == [3]
