"""The example's journal: what is written comes back, and faults in it stay visible."""

from pathlib import Path

from journal import Journal, newest_usable, read_journals, read_lines
from proof import Attempt

FIRST = Attempt(number=1, round=1, world_size=6, start=0, newest=0)
SECOND = Attempt(number=2, round=3, world_size=4, start=15, newest=15, saved=15)


def write_first(folder: Path, *, node: int = 0) -> None:
    with Journal(folder, node=node, attempt=FIRST, before=()) as journal:
        for step in range(1, 16):
            journal.step(step)
        journal.checkpoint(15, folder / "fifteen.ckpt")
        journal.step(16)


FIRST_DONE = Attempt(number=1, round=1, world_size=6, start=0, newest=0, runs=((1, 16),), saved=15)


def test_what_is_journaled_is_read_back(tmp_path: Path) -> None:
    write_first(tmp_path)
    witness = read_journals(tmp_path)
    assert witness.attempts == (FIRST_DONE,)
    assert witness.checkpoints == ((15, "fifteen.ckpt"),)


def test_a_later_round_is_appended_even_under_another_node_number(tmp_path: Path) -> None:
    write_first(tmp_path, node=2)
    with Journal(tmp_path, node=1, attempt=SECOND, before=[FIRST_DONE]) as journal:
        journal.step(16)
    assert [(one.number, one.done) for one in read_journals(tmp_path).attempts] == [(1, 16), (2, 16)]


def test_the_first_line_of_a_round_has_the_rounds_before(tmp_path: Path) -> None:
    with Journal(tmp_path, node=0, attempt=SECOND, before=[FIRST_DONE]):
        pass
    assert read_journals(tmp_path).attempts == (FIRST_DONE, SECOND)


def test_a_folder_without_a_journal_has_no_attempts(tmp_path: Path) -> None:
    assert read_journals(tmp_path).attempts == ()


def test_a_line_torn_by_a_crash_does_not_spoil_the_next(tmp_path: Path) -> None:
    write_first(tmp_path)
    (path,) = tmp_path.glob("*.journal")
    path.write_bytes(path.read_bytes()[:-5])
    with Journal(tmp_path, node=0, attempt=SECOND, before=()) as journal:
        journal.step(16)
    assert [(one.number, one.done) for one in read_journals(tmp_path).attempts] == [(1, 15), (2, 16)]


def test_a_missing_and_a_repeated_step_stay_visible(tmp_path: Path) -> None:
    with Journal(tmp_path, node=0, attempt=FIRST, before=()) as journal:
        for step in (1, 2, 4, 4, 5):
            journal.step(step)
    assert read_journals(tmp_path).attempts[0].runs == ((1, 2), (4, 4), (4, 5))


def test_steps_of_an_attempt_that_never_began_are_passed_over() -> None:
    assert read_lines(['{"attempt": 7, "step": 3}']).attempts == ()


def test_a_damaged_checkpoint_is_not_the_newest_usable_one(tmp_path: Path) -> None:
    with Journal(tmp_path, node=0, attempt=FIRST, before=()) as journal:
        journal.checkpoint(15, tmp_path / "a.ckpt")
        journal.checkpoint(30, tmp_path / "b.ckpt")
    witness = read_journals(tmp_path)
    assert newest_usable(witness, {}) == 30
    assert newest_usable(witness, {"b.ckpt": "torn"}) == 15
    assert newest_usable(witness, {"a.ckpt", "b.ckpt"}) == 0
