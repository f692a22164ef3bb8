"""The settings of a worker of the example, from its command line and environment."""

from pathlib import Path

import pytest
from settings import Place, read_settings


def test_every_option_has_a_default() -> None:
    assert read_settings([]).epochs == 20


@pytest.mark.parametrize("wrong", [["--epochs", "0"], ["--batch", "-1"], ["--hidden", "x"], ["--seed", "-3"]])
def test_a_wrong_number_is_an_error_of_usage(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_settings(wrong)
    assert caught.value.code == 2
    assert f"argument {wrong[0]}: " in capsys.readouterr().err


def test_files_of_other_settings_are_elsewhere_but_epochs_may_change() -> None:
    root = Path("root")
    folder = read_settings([]).folder(root)
    assert folder == root / "seed0-batch96-lr0.5-hidden32"
    assert read_settings(["--epochs", "30"]).folder(root) == folder
    assert read_settings(["--lr", "0.1"]).folder(root) != folder


def test_without_an_environment_a_process_is_alone() -> None:
    place = Place.from_environment({})
    assert (place.rank, place.local_rank, place.world_size, place.round) == (0, 0, 1, 0)


def test_a_job_that_keeps_steps_in_memory_names_two_directories() -> None:
    place = Place.from_environment({"ELASTICJOB_KEEP": "in", "ELASTICJOB_KEPT": "kept"})
    assert (place.keep, place.kept) == (Path("in"), Path("kept"))
    assert (Place.from_environment({}).keep, Place.from_environment({}).kept) == (None, None)


def test_torchrun_without_elasticjob_counts_rounds_by_its_restarts() -> None:
    assert Place.from_environment({"TORCHELASTIC_RESTART_COUNT": "2"}).round == 2
    assert Place.from_environment({"TORCHELASTIC_RESTART_COUNT": "2", "ELASTICJOB_ROUND": "7"}).round == 7
