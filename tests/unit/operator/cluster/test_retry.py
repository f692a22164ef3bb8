"""Retries until success, with few log lines."""

import logging

import pytest

from elasticjob_operator.cluster.retry import retry_until_success
from elasticjob_operator.errors import ClusterError, OperatorError


class Attempts:
    """An attempt that fails with each message in turn, then succeeds."""

    def __init__(self, *sentences: str) -> None:
        self._errors = [ClusterError(sentence) for sentence in sentences]

    async def __call__(self) -> str:
        if self._errors:
            raise self._errors.pop(0)
        return "result"


async def test_the_first_result_is_returned(caplog: pytest.LogCaptureFixture) -> None:
    assert await retry_until_success(Attempts(), description="cannot list", retry_s=0.0) == "result"
    assert caplog.messages == []


async def test_each_new_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert (
        await retry_until_success(
            Attempts("away", "away", "forbidden", "forbidden"), description="cannot list", retry_s=0.0
        )
        == "result"
    )
    assert caplog.messages == [
        "cannot list: away; trying again",
        "cannot list: forbidden; trying again",
        "cannot list: it works now",
    ]


async def test_the_same_error_is_logged_again_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    await retry_until_success(Attempts("away", "away"), description="cannot list", retry_s=0.0, log_again_s=0.0)
    assert caplog.messages == ["cannot list: away; trying again"] * 2


async def test_any_other_error_is_raised() -> None:
    async def fails() -> str:
        raise OperatorError("ours")

    with pytest.raises(OperatorError, match="ours"):
        await retry_until_success(fails, description="cannot list", retry_s=0.0)
