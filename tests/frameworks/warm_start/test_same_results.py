"""A warm round has the results of a cold one, to the last bit, in each framework.

`make nightly-warm-start` runs as many rounds as ROUNDS has: WARM_START_SHARE=1. Without the variable there are few.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.frameworks.local_run import ROOT
from tests.frameworks.warm_start.soak import compare

SHARE = float(os.environ.get("WARM_START_SHARE", "0"))
FEWEST = 2
COLD_SHARE = 0.1
"""Cold rounds, as a share of the warm ones: their results differ in nothing once it has been seen."""
SECONDS_EACH = 20.0

JUST_COMPILED = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
ROUNDS = [
    pytest.param("ddp", 1000, {}, id="ddp"),
    pytest.param("fsdp", 100, {}, id="fsdp"),
    pytest.param("jax_gloo", 100, {}, id="jax"),
    pytest.param("xgboost_rabit", 100, {}, id="xgboost"),
    pytest.param("trainer", 100, {}, id="trainer"),
    pytest.param("dataloader", 100, {"START_METHOD": "fork"}, id="dataloader-fork"),
    pytest.param("dataloader", 100, {"START_METHOD": "spawn"}, id="dataloader-spawn"),
    pytest.param("dataloader", 100, {"START_METHOD": "forkserver"}, id="dataloader-forkserver"),
    pytest.param("compiled", 10, JUST_COMPILED, id="compile"),
]

pytestmark = pytest.mark.timeout(900 + SHARE * 1000 * SECONDS_EACH)


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter with all frameworks."""
    done = subprocess.run([ROOT / "hack/frameworks-venv"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip())


@pytest.mark.parametrize(("program", "count", "more"), ROUNDS)
async def test_warm_and_cold_rounds_have_the_same_results(
    program: str, count: int, more: Mapping[str, str], python: Path, tmp_path: Path
) -> None:
    warm = max(FEWEST, round(SHARE * count))
    tally = await compare(program, python, tmp_path, cold=max(1, round(COLD_SHARE * warm)), warm=warm, more=more)
    print(tally.show(), *(f"allowed: {remark}" for remark in tally.verdict.remarks), sep="\n")
    assert tally.rounds_of("warm") == warm
    assert not tally.verdict.failures, tally.show()
