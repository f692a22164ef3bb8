"""Changed conversations on proved sessions: a real keeper goes on, stays in its volume, and serves good peers."""

from pathlib import Path

import pytest

from tests.fuzz.fuzzed_keeper import fuzz_keeper


@pytest.mark.parametrize("seed", range(2))
async def test_a_keeper_outlives_what_a_peer_with_the_secret_sends_and_serves_the_others(
    keep_dir: Path, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    assert await fuzz_keeper(keep_dir, seed, sessions=100) > 150
    assert "Traceback" not in capfd.readouterr().err
