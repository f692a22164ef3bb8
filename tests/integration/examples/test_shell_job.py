"""The example that is no Python runs to its end, through a worker that is killed."""

from pathlib import Path

from tests.frameworks.local_run import run_example


def test_a_shell_script_goes_on_where_it_was_after_a_kill(tmp_path: Path) -> None:
    done = run_example("shell", tmp_path, None, "--inject", "kill-worker:rank=1@40%")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "rank 1 of 2 goes on from 0, in round 1" in said
    assert "was killed by SIGKILL in round 1" in said
    assert "rank 1 of 2 goes on from 0, in round 2" not in said
    assert "rank 0: done at 50" in said
