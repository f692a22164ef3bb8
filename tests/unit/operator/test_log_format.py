"""The operator's log lines, and kopf's lines in it."""

import json
import logging
import sys

from elasticjob_operator.log_format import LOG_AGAIN_S, JsonFormatter, RateLimitFilter, TextLines
from elasticjob_operator.model.job_key import JobKey
from testing.clocks.fake_clock import FakeClock


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("kopf", logging.ERROR, "file", 1, message, None, None)


ATTEMPT = "Request attempt #3/43 failed; will retry: GET https://h:1/api/v1/pods?watch=true -> APIError('no', {'a': 1})"


def test_a_failed_attempt_becomes_one_short_line() -> None:
    line = record(ATTEMPT)
    assert RateLimitFilter(FakeClock()).filter(line)
    assert line.getMessage() == "cannot watch, trying again: GET https://h:1/api/v1/pods: APIError('no', {'a': 1})"


def test_failed_attempts_are_logged_once_a_minute() -> None:
    clock = FakeClock()
    seldom = RateLimitFilter(clock)
    assert [seldom.filter(record(ATTEMPT)) for _ in range(3)] == [True, False, False]
    clock.now_s = LOG_AGAIN_S
    assert seldom.filter(record(ATTEMPT))


def test_every_other_line_is_unchanged() -> None:
    seldom = RateLimitFilter(FakeClock())
    lines = [record("Request attempt #3/43 succeeded: GET x") for _ in range(3)]
    assert all(seldom.filter(line) for line in lines)
    assert lines[0].getMessage() == "Request attempt #3/43 succeeded: GET x"


def test_a_very_long_error_is_cut() -> None:
    line = record(ATTEMPT.replace("'no'", "'" + "x" * 5000 + "'"))
    assert RateLimitFilter(FakeClock()).filter(line)
    assert len(line.getMessage()) < 500


def test_a_line_about_a_job_is_an_object_that_names_it() -> None:
    key = JobKey("team", "digits", "u1")
    line = logging.LogRecord(
        "elasticjob_operator.controller.status_writer", logging.INFO, "file", 1, "%s: %s", (key, "Created"), None
    )
    output = json.loads(JsonFormatter().format(line))
    assert (output["namespace"], output["job"], output["uid"]) == ("team", "digits", "u1")
    assert (output["level"], output["message"]) == ("INFO", "team/digits: Created")


def test_a_line_without_a_job_names_no_job() -> None:
    assert "job" not in json.loads(JsonFormatter().format(record('a "word"')))


def test_a_traceback_is_part_of_the_json_line() -> None:
    try:
        int("oops")
    except ValueError:
        line = logging.LogRecord("x", logging.ERROR, "file", 1, "unexpected", None, sys.exc_info())
    output = JsonFormatter().format(line)
    assert "\n" not in output
    assert "ValueError" in json.loads(output)["exception"]


def test_control_characters_of_foreign_text_are_escaped() -> None:
    output = TextLines("%(levelname)s: %(message)s").format(
        record("j: \x1b[2Jx\r\n2026-01-01 WARNING other/job: forged\u202e")
    )
    assert output == r"ERROR: j: \x1b[2Jx\r\n2026-01-01 WARNING other/job: forged\u202e"


def test_a_traceback_in_text_has_several_lines() -> None:
    line = record("oops")
    try:
        int("x")
    except ValueError:
        line.exc_info = sys.exc_info()
    assert len(TextLines("%(message)s").format(line).splitlines()) > 2
