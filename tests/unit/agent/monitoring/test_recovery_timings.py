"""How long the steps of a round took: from moments of one clock, and nothing where there are none."""

from elasticjob_agent.monitoring.recovery_timings import recovery_timings
from elasticjob_agent.tracing import TracedPoint, Tracer
from elasticjob_api.records import RecoveryTimings

SEEN = {
    "saw forming": TracedPoint(2, 1_000_000_000),
    "ready": TracedPoint(2, 1_250_000_000),
    "saw active": TracedPoint(2, 1_300_000_000),
}
STARTED_NS = 1_320_000_000


def test_a_round_is_stopping_agreeing_and_starting() -> None:
    assert recovery_timings(SEEN, 2, STARTED_NS) == RecoveryTimings(stop_s=0.25, agree_s=0.05, start_s=0.02)


def test_a_joiner_has_stopped_nothing() -> None:
    assert recovery_timings({"saw active": TracedPoint(2, 1_300_000_000)}, 2, STARTED_NS) == RecoveryTimings(
        start_s=0.02
    )


def test_moments_of_another_round_measure_nothing() -> None:
    assert recovery_timings(SEEN, 3, STARTED_NS) == RecoveryTimings()


def test_who_opened_a_round_knows_how_long_that_took_since_its_worker_ended() -> None:
    marks = {
        "failed": TracedPoint(1, 900_000_001),
        "detected": TracedPoint(1, 940_000_000),
        "proposed": TracedPoint(2, 950_000_000),
    }
    assert recovery_timings(marks, 2, STARTED_NS).detect_s == 0.05


def test_an_end_that_is_known_to_the_second_only_is_not_believed() -> None:
    marks = {
        "failed": TracedPoint(1, 1_000_000_000),
        "detected": TracedPoint(1, 1_900_000_000),
        "proposed": TracedPoint(2, 1_910_000_000),
    }
    assert recovery_timings(marks, 2, STARTED_NS).detect_s == 0.01


LOSS = {"opened for a loss": TracedPoint(2, 100_000_000_000)}


def test_a_lost_node_is_found_from_the_end_of_its_link() -> None:
    proof = {"link ended": TracedPoint(0, 99_980_000_000), "link proved": TracedPoint(0, 99_990_000_000)}
    assert recovery_timings({**LOSS, **proof}, 2, STARTED_NS).detect_s == 0.02


def test_a_lost_closer_is_found_from_the_proof_of_it() -> None:
    assert (
        recovery_timings({**LOSS, "closer proved gone": TracedPoint(0, 99_900_000_000)}, 2, STARTED_NS).detect_s == 0.1
    )


def test_a_loss_that_only_the_lease_told_of_has_no_beginning() -> None:
    older = {"link ended": TracedPoint(0, 70_000_000_000), "link proved": TracedPoint(0, 70_010_000_000)}
    assert recovery_timings({**LOSS, **older}, 2, STARTED_NS).detect_s is None
    assert recovery_timings({**LOSS, "link ended": TracedPoint(0, 99_000_000_000)}, 2, STARTED_NS).detect_s is None


def test_a_round_that_the_closer_opened_for_no_loss_was_not_detected() -> None:
    proof = {"link ended": TracedPoint(0, 99_980_000_000), "link proved": TracedPoint(0, 99_990_000_000)}
    assert (
        recovery_timings({"closer wrote forming": TracedPoint(2, 100_000_000_000), **proof}, 2, STARTED_NS).detect_s
        is None
    )


def test_a_clock_that_was_set_back_measures_nothing() -> None:
    assert recovery_timings({"saw active": TracedPoint(2, STARTED_NS + 1)}, 2, STARTED_NS).start_s is None


def test_a_point_that_is_reached_again_in_its_round_counts_from_the_first_time() -> None:
    trace = Tracer(None, "")
    trace.point("detected", 1)
    first = trace.points["detected"]
    trace.point("detected", 1)
    assert trace.points["detected"] is first
    trace.point("detected", 2)
    assert trace.points["detected"].round == 2
