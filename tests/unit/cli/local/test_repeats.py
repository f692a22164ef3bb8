"""Lines that a run leaves out of its stream, because another line of it has the same content."""

import pytest

from elasticjob_api.constants import EventReason
from elasticjob_api.one_line import one_line
from elasticjob_api.status import LastFailure
from elasticjob_cli.local.repeats import RecentOutput, event_line, is_end_of_job
from elasticjob_operator.policy.status.events import worker_failed_text

_SAID = "rank 3 on j-1-abcde exited with code 1: ValueError: no; maxRestarts 1 is used up"


@pytest.mark.parametrize(
    ("line", "is_end"),
    [
        pytest.param(f"elasticjob-agent: {_SAID} (exit code 1)", True, id="the end of the agent that had the cause"),
        pytest.param(f"elasticjob-agent: {_SAID} (exit code 120)", True, id="of its peers"),
        pytest.param(f"elasticjob-agent: {_SAID} (exit code 139)", True, id="of a worker that crashed"),
        pytest.param("elasticjob-agent: too few nodes came (exit code 123)", False, id="what ended this agent alone"),
        pytest.param("elasticjob-agent: etcd cannot be reached (exit code 124)", False, id="as an etcd that is away"),
        pytest.param("elasticjob-agent: the leader, slot 2, is gone", False, id="no end"),
        pytest.param(f"[rank1] {_SAID} (exit code 1)", False, id="a worker's line"),
        pytest.param("ValueError: no (exit code 1)", False, id="also without a rank"),
    ],
)
def test_an_agents_line_about_the_end_of_the_job_is_left_to_the_summary(line: str, is_end: bool) -> None:  # noqa: FBT001  # a table
    assert is_end_of_job(f"{line}\n".encode()) is is_end


def _recent(*blocks: bytes) -> RecentOutput:
    recent = RecentOutput()
    for block in blocks:
        recent.record(block)
    return recent


_WORDS = "rank 3 on j-1-abcde exited with 1 in round 2"


def _failure(message: str) -> LastFailure:
    return LastFailure(time="", round=2, pod_name="j-1-abcde", rank=3, local_rank=1, exit_code=1, message=message)


def _failed_line(cause: str, recent: RecentOutput) -> str | None:
    """Return the line for the event of a worker with this message, as the operator writes it."""
    failure = _failure(cause)
    return event_line(EventReason.WORKER_FAILED, one_line(worker_failed_text(failure)), failure, recent)


def test_a_cause_that_the_worker_has_written_is_not_repeated() -> None:
    assert _failed_line("ValueError: no", _recent(b"[rank3] Traceback\n[rank3] ValueError: no\n")) == _WORDS


def test_of_several_lines_the_last_one_decides() -> None:
    assert _failed_line("first\nValueError: no\n", _recent(b"[rank3] ValueError: no\n")) == _WORDS


def test_a_cause_that_no_worker_has_written_is_shown() -> None:
    assert _failed_line("command 'trian.sh' not found", _recent(b"[rank3] up\n")) == (
        f"{_WORDS}: command 'trian.sh' not found"
    )


@pytest.mark.parametrize(
    ("cause", "written"),
    [
        pytest.param("KeyError: 3", b"[rank0] KeyError: 32, tried again\n", id="the beginning of another line"),
        pytest.param("7", b"[rank0] step 17\n", id="the end of another line"),
        pytest.param("the config is bad: {\n  x\n}", b"[rank0] {}\n", id="a last line that many lines have"),
    ],
)
def test_a_cause_is_not_cut_because_a_line_merely_contains_it(cause: str, written: bytes) -> None:
    assert _failed_line(cause, _recent(written)) == f"{_WORDS}: {one_line(cause)}"


@pytest.mark.parametrize("written", [b"ValueError: no", b"[rank3] ValueError: no", b"[rank3]: ValueError: no\r"])
@pytest.mark.parametrize("cause", ["ValueError: no", "no"])
def test_a_cause_is_found_behind_ranks_and_its_class(cause: str, written: bytes) -> None:
    assert _failed_line(cause, _recent(b"up\n" + written + b"\n")) == _WORDS


def test_a_failure_without_a_message_is_shown_unchanged() -> None:
    assert _failed_line("", _recent(b"[rank3] up\n")) == _WORDS


def test_an_event_about_another_failure_is_shown_unchanged() -> None:
    recent, event = _recent(b"ValueError: no\n"), "rank 0 on j-0-abcde exited with 7 in round 2: 7"
    assert event_line(EventReason.WORKER_FAILED, event, _failure("ValueError: no"), recent) == event
    assert event_line(EventReason.WORKER_FAILED, event, None, recent) == event


def test_a_cause_is_found_after_much_other_output_in_one_block() -> None:
    assert _failed_line("ValueError: no", _recent(b"x" * 100_000 + b"\nValueError: no\n")) == _WORDS


def test_the_kept_output_is_bounded() -> None:
    recent = _recent(b"ValueError: no\n", *[b"y" * 5000 + b"\n"] * 1000)
    assert not recent.has("ValueError: no")


_ROUND = "round 3: 1 node, 2 workers; cause: rank 3 on j-1-abcde exited with code 1"
_NEXT = "failure 2 in a row before any progress, the next attempt is 1 s after it"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (f"{_ROUND}: ValueError: no; {_NEXT}", f"{_ROUND}; {_NEXT}"),
        (f"{_ROUND}: ValueError: no", _ROUND),
        (f"{_ROUND}: OSError: full; {_NEXT}", f"{_ROUND}: OSError: full; {_NEXT}"),
        ("round 3: 1 node, 2 workers; cause: slot 1 left", "round 3: 1 node, 2 workers; cause: slot 1 left"),
        ("round 3: 1 node, 2 workers", "round 3: 1 node, 2 workers"),
    ],
)
def test_a_round_after_a_failure_does_not_repeat_the_cause(message: str, line: str) -> None:
    assert event_line(EventReason.RENDEZVOUS_COMPLETED, message, _failure("ValueError: no"), _recent()) == line


def test_the_end_of_a_failed_job_is_left_to_the_summary() -> None:
    assert event_line(EventReason.FAILED, f"MaxRestartsExceeded: {_SAID}", None, _recent()) is None


@pytest.mark.parametrize("reason", [EventReason.SUCCEEDED, EventReason.RESTARTING, EventReason.NODE_LOST])
def test_every_other_event_is_shown_word_for_word(reason: str) -> None:
    recent, text = _recent(b"the job resumes with 1 node\n"), "the job resumes with 1 node"
    assert event_line(reason, text, _failure(text), recent) == text
