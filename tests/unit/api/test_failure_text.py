"""A worker's failure as text."""

from typing import Any

import pytest

from elasticjob_api.failure_text import OOM_KILLED, describe_failure, describe_last_failure
from elasticjob_api.records import WorkerFailure
from elasticjob_api.status import LastFailure


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({}, "rank 1 on pod-1 exited with code 1", id="an exit"),
        pytest.param({"pod": ""}, "rank 1 exited with code 1", id="without a pod"),
        pytest.param(
            {"exit_code": -9, "signal": "SIGKILL", "oom": True},
            "rank 1 on pod-1 was killed by SIGKILL (out of memory)",
            id="out of memory",
        ),
        pytest.param(
            {"message": "Traceback\n  ...\nValueError: boom\n"},
            "rank 1 on pod-1 exited with code 1: ValueError: boom",
            id="its last line",
        ),
    ],
)
def test_the_text_of_a_failure(fields: dict[str, Any], text: str) -> None:
    values: dict[str, Any] = {"incarnation": "", "rank": 1, "pod": "pod-1", "exit_code": 1, **fields}
    assert describe_failure(WorkerFailure(**values)) == text


@pytest.mark.parametrize(
    ("code", "fields", "text"),
    [
        (7, {"message": "7"}, "rank 3 on pod-1 exited with code 7: 7"),
        (137, {"signal": "SIGKILL", "reason": OOM_KILLED}, "rank 3 on pod-1 was killed by SIGKILL (out of memory)"),
    ],
)
def test_the_text_of_a_failure_in_the_status_is_that_of_its_record(
    code: int, fields: dict[str, Any], text: str
) -> None:
    failure = LastFailure(time="", round=1, pod_name="pod-1", rank=3, local_rank=1, exit_code=code, **fields)
    assert describe_last_failure(failure) == text
