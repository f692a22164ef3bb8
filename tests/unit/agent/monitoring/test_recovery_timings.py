"""The duration of each step of a round, from trace points of one clock; None without the points."""

from elasticjob_agent.monitoring.recovery_timings import recovery_timings
from elasticjob_agent.tracing import TracedPoint, TracedPoints, Tracer
from elasticjob_api.records import RecoveryTimings

POINTS: TracedPoints = {
    "saw forming": TracedPoint(2, 1_000_000_000),
    "ready": TracedPoint(2, 1_250_000_000),
    "saw active": TracedPoint(2, 1_300_000_000),
}
STARTED_NS = 1_320_000_000


def test_a_round_has_the_steps_stop_agree_and_start() -> None:
    assert recovery_timings(POINTS, 2, STARTED_NS) == RecoveryTimings(stop_s=0.25, agree_s=0.05, start_s=0.02)


def test_a_joiner_has_only_the_step_start() -> None:
    assert recovery_timings({"saw active": TracedPoint(2, 1_300_000_000)}, 2, STARTED_NS) == RecoveryTimings(
        start_s=0.02
    )


def test_points_of_another_round_do_not_count() -> None:
    assert recovery_timings(POINTS, 3, STARTED_NS) == RecoveryTimings()


def test_the_agent_that_opened_a_round_measures_detection_from_its_workers_end() -> None:
    points: TracedPoints = {
        "failed": TracedPoint(1, 900_000_001),
        "detected": TracedPoint(1, 940_000_000),
        "proposed": TracedPoint(2, 950_000_000),
    }
    assert recovery_timings(points, 2, STARTED_NS).detect_s == 0.05


def test_an_end_in_whole_seconds_does_not_count() -> None:
    points: TracedPoints = {
        "failed": TracedPoint(1, 1_000_000_000),
        "detected": TracedPoint(1, 1_900_000_000),
        "proposed": TracedPoint(2, 1_910_000_000),
    }
    assert recovery_timings(points, 2, STARTED_NS).detect_s == 0.01


LOSS: TracedPoints = {"opened for a loss": TracedPoint(2, 100_000_000_000)}


def test_detection_of_a_lost_node_begins_at_the_end_of_its_link() -> None:
    proof: TracedPoints = {"link ended": TracedPoint(0, 99_980_000_000), "link proved": TracedPoint(0, 99_990_000_000)}
    assert recovery_timings({**LOSS, **proof}, 2, STARTED_NS).detect_s == 0.02


def test_detection_of_a_lost_leader_begins_at_its_proof() -> None:
    assert (
        recovery_timings({**LOSS, "closer proved gone": TracedPoint(0, 99_900_000_000)}, 2, STARTED_NS).detect_s == 0.1
    )


def test_a_loss_that_only_the_lease_revealed_has_no_detection_time() -> None:
    older: TracedPoints = {"link ended": TracedPoint(0, 70_000_000_000), "link proved": TracedPoint(0, 70_010_000_000)}
    assert recovery_timings({**LOSS, **older}, 2, STARTED_NS).detect_s is None
    assert recovery_timings({**LOSS, "link ended": TracedPoint(0, 99_000_000_000)}, 2, STARTED_NS).detect_s is None


def test_a_round_that_the_leader_opened_without_a_loss_has_no_detection_time() -> None:
    proof: TracedPoints = {"link ended": TracedPoint(0, 99_980_000_000), "link proved": TracedPoint(0, 99_990_000_000)}
    assert (
        recovery_timings({"closer wrote forming": TracedPoint(2, 100_000_000_000), **proof}, 2, STARTED_NS).detect_s
        is None
    )


def test_the_time_to_restore_a_kept_step_is_between_the_active_round_and_the_start() -> None:
    restored: TracedPoints = {**POINTS, "restored": TracedPoint(2, 1_310_000_000)}
    timings = recovery_timings(restored, 2, STARTED_NS)
    assert (timings.agree_s, timings.restore_s, timings.start_s) == (0.05, 0.01, 0.01)
    older: TracedPoints = {**POINTS, "restored": TracedPoint(1, 1_310_000_000)}
    timings = recovery_timings(older, 2, STARTED_NS)
    assert (timings.restore_s, timings.start_s) == (None, 0.02)


def test_a_clock_that_was_set_back_gives_no_duration() -> None:
    assert recovery_timings({"saw active": TracedPoint(2, STARTED_NS + 1)}, 2, STARTED_NS).start_s is None


def test_a_point_that_is_reached_again_in_its_round_counts_from_the_first_time() -> None:
    trace = Tracer(None, "")
    trace.point("detected", 1)
    first = trace.points["detected"]
    trace.point("detected", 1)
    assert trace.points["detected"] is first
    trace.point("detected", 2)
    assert trace.points["detected"].round == 2
