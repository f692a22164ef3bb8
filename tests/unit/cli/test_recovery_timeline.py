"""A timeline from the trace of a job: the length of each step of each recovery, and the agent that ended it."""

import json

from elasticjob_cli import recovery_timeline

FAILURE = [
    (100, "a", 1, "started"),
    (900, "b", 1, "failed"),
    (1_000, "b", 1, "detected"),
    (1_400, "b", 2, "proposed"),
    (1_300, "a", 2, "saw forming"),
    (1_310, "a", 2, "stopping"),
    (1_450, "b", 2, "saw forming"),
    (1_600, "b", 2, "stopped"),
    (2_000, "a", 2, "stopped"),
    (1_900, "b", 2, "ready"),
    (2_300, "a", 2, "ready"),
    (2_800, "a", 2, "closer wrote active"),
    (2_700, "b", 2, "saw active"),
    (2_900, "a", 2, "saw active"),
    (3_000, "a", 2, "started"),
    (3_500, "b", 2, "started"),
]


def lines(points: list[tuple[int, str, int, str]]) -> list[str]:
    return [json.dumps(dict(zip(("t_us", "agent", "round", "point"), point, strict=True))) for point in points]


def test_the_steps_of_a_recovery_follow_each_other_and_add_up() -> None:
    recovery = recovery_timeline.recoveries(recovery_timeline.read(lines(FAILURE)))[-1]
    assert [(step.name, step.end_us - step.begin_us, step.agent) for step in recovery.steps] == [
        ("detect", 100, "b"),
        ("propose", 300, "a"),
        ("stop", 700, "a"),
        ("ready", 300, "a"),
        ("close", 400, "b"),
        ("start", 800, "b"),
    ]
    assert sum(step.end_us - step.begin_us for step in recovery.steps) == recovery.took_us == 2_600


def test_a_round_that_restores_a_kept_step_has_a_step_for_it() -> None:
    restored = [*FAILURE, (2_950, "a", 2, "restored"), (3_200, "b", 2, "restored")]
    recovery = recovery_timeline.recoveries(recovery_timeline.read(lines(restored)))[-1]
    assert [(step.name, step.end_us - step.begin_us, step.agent) for step in recovery.steps[-2:]] == [
        ("restore", 500, "b"),
        ("start", 300, "b"),
    ]
    assert recovery.took_us == 2_600


def test_a_recovery_begins_with_the_workers_end_and_not_with_the_round_before() -> None:
    first, second = recovery_timeline.recoveries(recovery_timeline.read(lines(FAILURE)))
    assert (first.round, second.round, second.begin_us) == (1, 2, 900)


def test_a_lost_node_is_detected_by_the_end_of_its_link() -> None:
    lost = [(900, "a", 0, "link ended"), (950, "a", 0, "link proved"), *[p for p in FAILURE if p[0] > 1_200]]
    steps = recovery_timeline.recoveries(recovery_timeline.read(lines([FAILURE[0], *lost])))[-1].steps
    assert [(step.name, step.end_us) for step in steps[:2]] == [("detect", 50), ("propose", 400)]


def test_the_whole_second_of_an_error_file_is_not_the_begin() -> None:
    later = [(at + 2_999_500, agent, round_, name) for at, agent, round_, name in FAILURE if name != "failed"]
    points = recovery_timeline.read(lines([*later, (3_000_000, "b", 1, "failed")]))
    assert recovery_timeline.recoveries(points)[-1].begin_us == 3_000_500


def test_lines_without_a_point_are_ignored() -> None:
    assert recovery_timeline.read(
        ["", "{", "[1]", '{"t_us": 1}', '{"t_us": 1, "agent": "a", "round": 1, "point": "p"}']
    ) == [recovery_timeline.TraceLine(1, "a", 1, "p")]


def test_a_job_that_never_started_has_no_recoveries() -> None:
    assert (
        recovery_timeline.recoveries(recovery_timeline.read(lines([(1, "a", 0, "joined"), (2, "a", 1, "saw forming")])))
        == []
    )


def test_a_recovery_is_shown_with_the_length_of_each_step_and_every_point() -> None:
    shown = recovery_timeline.show(
        recovery_timeline.recoveries(recovery_timeline.read(lines(FAILURE)))[-1]
    ).splitlines()
    assert shown[0] == "round 2: 2,600 µs"
    assert shown[1].split() == ["detect", "100", "µs", "ended", "by", "b"]
    assert shown[-1].split() == ["2,600", "b:", "started"]
