"""The example's proof holds for what may happen and fails for each thing that may not."""

import proof
import pytest
from proof import Attempt, Segment

PER_EPOCH = 15
TOTAL = 90


def attempt(number: int, start: int, done: int, *, newest: int | None = None, saved: int | None = None) -> Attempt:
    """Round `number` with six workers, from `start` to `done`, all checkpoints written by default."""
    return Attempt(
        number=number,
        round=number,
        world_size=6,
        start=start,
        newest=start if newest is None else newest,
        runs=((start + 1, done),) if done > start else (),
        saved=done // PER_EPOCH * PER_EPOCH if saved is None else saved,
    )


def problems(*attempts: Attempt) -> list[str]:
    return proof.attempt_problems(attempts, total=TOTAL, per_epoch=PER_EPOCH)


@pytest.mark.parametrize(
    "attempts",
    [
        pytest.param([attempt(1, 0, 90)], id="no restart"),
        pytest.param([attempt(1, 0, 49), attempt(2, 45, 90)], id="a restart repeats from the checkpoint"),
        pytest.param([attempt(1, 0, 45), attempt(2, 45, 90)], id="killed just after a checkpoint"),
        pytest.param([attempt(1, 0, 45, saved=30), attempt(2, 30, 90)], id="killed just before a checkpoint"),
        pytest.param([attempt(1, 0, 45, saved=30), attempt(2, 45, 90)], id="killed between checkpoint and journal"),
        pytest.param([attempt(1, 0, 7), attempt(2, 0, 90)], id="killed before the first checkpoint"),
        pytest.param([attempt(1, 0, 49), attempt(2, 45, 47), attempt(3, 45, 90)], id="killed twice in one epoch"),
        pytest.param([attempt(1, 0, 49), attempt(2, 45, 45), attempt(3, 45, 90)], id="killed before any step"),
        pytest.param([attempt(1, 0, 49), attempt(2, 30, 90)], id="the newest checkpoint was found damaged"),
        pytest.param([attempt(1, 0, 90), attempt(2, 90, 90)], id="killed while proving"),
    ],
)
def test_histories_that_hold(attempts: list[Attempt]) -> None:
    assert problems(*attempts) == []


@pytest.mark.parametrize(
    ("attempts", "problem"),
    [
        pytest.param([], "the journals end at step 0, not at 90", id="nothing"),
        pytest.param([attempt(1, 0, 75)], "the journals end at step 75, not at 90", id="ended early"),
        pytest.param(
            [attempt(1, 0, 49), attempt(2, 30, 90, newest=45)],
            "round 2 went back to step 30, though there was a checkpoint of step 45",
            id="repeats beyond the checkpoint",
        ),
        pytest.param(
            [attempt(1, 0, 49), attempt(2, 60, 90)],
            "round 2 went on from step 60, but only 49 were done before",
            id="gap between rounds",
        ),
        pytest.param(
            [attempt(1, 0, 49), attempt(2, 46, 90)], "round 2 went on from step 46, where no epoch ends", id="mid-epoch"
        ),
        pytest.param(
            [Attempt(1, 1, 6, 0, 0, runs=((1, 20), (22, 90)), saved=90)],
            "round 1 did step 22 where 21 was due",
            id="gap in a round",
        ),
        pytest.param(
            [Attempt(1, 1, 6, 0, 0, runs=((1, 20), (20, 90)), saved=90)],
            "round 1 did step 20 where 21 was due",
            id="repetition in a round",
        ),
        pytest.param(
            [Attempt(1, 1, 6, 0, 0, runs=((2, 90),), saved=90)],
            "round 1 did step 2 where 1 was due",
            id="first step missing",
        ),
        pytest.param(
            [attempt(1, 0, 90, saved=60)],
            "round 1 reached step 90 with no checkpoint after step 60",
            id="checkpoint missing",
        ),
        pytest.param([attempt(1, 0, 49), attempt(3, 45, 90)], "attempt 2 is in no journal", id="a round is missing"),
    ],
)
def test_histories_that_fail(attempts: list[Attempt], problem: str) -> None:
    assert problem in problems(*attempts)


def test_a_lineage_of_several_rounds_holds() -> None:
    assert proof.lineage_problems([Segment(1, 6, 1, 45), Segment(3, 4, 46, 90)], total=TOTAL) == []


@pytest.mark.parametrize(
    ("lineage", "problem"),
    [
        pytest.param([], "the lineage ends at step 0, not at 90", id="nothing"),
        pytest.param(
            [Segment(1, 6, 1, 45), Segment(2, 6, 61, 90)],
            "round 2 contributed steps 61-90 where 46 was due",
            id="gap",
        ),
        pytest.param(
            [Segment(1, 6, 1, 45), Segment(2, 6, 31, 90)],
            "round 2 contributed steps 31-90 where 46 was due",
            id="a step counted twice",
        ),
        pytest.param([Segment(1, 6, 1, 0)], "round 1 contributed steps 1-0 where 1 was due", id="empty segment"),
        pytest.param([Segment(1, 6, 1, 105)], "the lineage ends at step 105, not at 90", id="too far"),
    ],
)
def test_lineages_that_fail(lineage: list[Segment], problem: str) -> None:
    assert problem in proof.lineage_problems(lineage, total=TOTAL)


@pytest.mark.parametrize(
    "segment",
    [
        pytest.param(Segment(9, 6, 1, 45), id="another round"),
        pytest.param(Segment(1, 4, 1, 45), id="another world size"),
        pytest.param(Segment(1, 6, 16, 45), id="another start"),
        pytest.param(Segment(1, 6, 1, 60), id="further than the journal"),
    ],
)
def test_a_segment_that_no_journal_accounts_for_is_named(segment: Segment) -> None:
    told = proof.disagreements([segment], [attempt(1, 0, 49)])
    assert told == [f"no journal has steps {segment.first}-{segment.last} of round {segment.round}"]


def test_a_segment_may_end_before_the_journal_does() -> None:
    assert proof.disagreements([Segment(1, 6, 1, 45)], [attempt(1, 0, 49)]) == []


def test_the_longest_view_of_an_attempt_counts() -> None:
    assert proof.merge([[attempt(1, 0, 47)], [attempt(1, 0, 49)], []]) == (attempt(1, 0, 49),)


def test_a_gap_in_one_view_is_not_covered_up_by_another() -> None:
    gap = Attempt(1, 1, 6, 0, 0, runs=((1, 20), (22, 40)), saved=30)
    assert proof.merge([[attempt(1, 0, 49)], [gap]]) == (gap,)


def test_attempts_of_several_nodes_come_in_order() -> None:
    merged = proof.merge([[attempt(3, 45, 90)], [attempt(1, 0, 49), attempt(2, 45, 47)]])
    assert [one.number for one in merged] == [1, 2, 3]


def test_ranks_with_different_hashes_are_named() -> None:
    assert proof.differing_ranks(["a", "a", None, "b"]) == "ranks 0, 1 a, rank 3 b"


def test_equal_hashes_differ_nowhere() -> None:
    assert proof.differing_ranks(["a", None, "a"]) is None


def test_the_steps_verdict_lists_repeated_steps() -> None:
    lineage = [Segment(1, 6, 1, 45), Segment(2, 6, 46, 90)]
    verdict = proof.judge_steps(lineage, [attempt(1, 0, 49), attempt(2, 45, 90)], total=TOTAL, per_epoch=PER_EPOCH)
    assert str(verdict) == (
        "proof: steps 1-90 without a gap: 1-45 in round 1 (6 workers), 46-90 in round 2 (6 workers); "
        "repeated after a checkpoint: 46-49: holds"
    )


def test_the_steps_verdict_gathers_all_problems() -> None:
    verdict = proof.judge_steps([Segment(1, 6, 1, 75)], [attempt(1, 0, 60)], total=TOTAL, per_epoch=PER_EPOCH)
    assert len(verdict.problems) == 3
    assert ": FAILS: the lineage ends at step 75, not at 90; " in str(verdict)


def test_checkpoints_are_counted_by_round() -> None:
    lineage = [Segment(1, 6, 1, 45), Segment(2, 4, 46, 90)]
    verdict = proof.judge_hashes(lineage, ["a"] * 4, per_epoch=PER_EPOCH)
    assert "equal on all ranks at each of 6 checkpoints (3 on 6 ranks, 3 on 4 ranks): holds" in str(verdict)


def test_a_rank_that_ends_with_other_parameters_fails_the_proof() -> None:
    assert proof.judge_hashes([Segment(1, 6, 1, 90)], ["a", "b"], per_epoch=PER_EPOCH).problems


@pytest.mark.parametrize("apart", [1.1e-6, float("nan"), float("inf")])
def test_parameters_too_far_apart_fail(apart: float) -> None:
    assert proof.judge_parameters(apart).problems


def test_parameters_within_the_tolerance_hold() -> None:
    assert not proof.judge_parameters(1e-6).problems


@pytest.mark.parametrize(("accuracy", "holds"), [(0.9, True), (0.899, False), (float("nan"), False)])
def test_accuracy_has_a_lower_bound(accuracy: float, *, holds: bool) -> None:
    assert (not proof.judge_accuracy(accuracy).problems) == holds
