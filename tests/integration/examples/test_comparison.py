"""At each checkpoint all ranks of the example compare their parameters."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from allreduce import connect
from errors import ProofError
from settings import Place, read_settings
from train import Training

from testing.network.ports import unused_port


def compare(folder: Path, *, nudged_rank: int | None) -> list[str]:
    """Three ranks compare parameters at step 15, one of them with a last bit changed. Return what each received."""
    port = unused_port()

    def one(rank: int) -> str:
        env = {"RANK": str(rank), "WORLD_SIZE": "3", "CHECKPOINT_DIR": str(folder)}
        place = Place.from_environment(env)
        with connect(place.caller, "127.0.0.1", port) as group:
            parameters = np.full(3, 1.0)
            if rank == nudged_rank:
                parameters[2] = np.nextafter(1.0, 2.0)
            try:
                Training(read_settings([]), place, group).compare(parameters, 15)
            except ProofError as error:
                return str(error)
            return "equal"

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(one, range(3)))


def test_equal_parameters_pass(tmp_path: Path) -> None:
    assert compare(tmp_path, nudged_rank=None) == ["equal"] * 3


@pytest.mark.parametrize(("nudged", "groups"), [(1, "ranks 0, 2 .*, rank 1 "), (0, "rank 0 .*, ranks 1, 2 ")])
def test_one_changed_bit_is_noticed_by_all_and_the_rank_is_named(tmp_path: Path, nudged: int, groups: str) -> None:
    for told in compare(tmp_path, nudged_rank=nudged):
        assert re.match(f"parameters differ at the checkpoint of step 15: {groups}", told)
