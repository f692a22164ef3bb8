"""The lines about pods, and about the start of workers, for a user."""

from typing import Any

import pytest

from elasticjob_api.records import NodeReport, StartReport
from elasticjob_cli.local.console import TextStyle
from elasticjob_cli.local.followers import describe_starts, report_pod, why_failed
from tests.unit.cli.view_builders import a_pod, a_report, a_view


def _ended(**end: Any) -> dict[str, Any]:
    return {"name": "trainer", "state": {"terminated": end}}


def _failed(*containers: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**a_pod(phase="Failed"), "status": {"phase": "Failed", "containerStatuses": list(containers), **status}}


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param(None, a_pod(phase="Pending"), [], id="a new pod is no news"),
        pytest.param(
            a_pod(phase="Pending"),
            a_pod(),
            [("pod j-0-abcde is running on local-0", TextStyle.PLAIN)],
            id="that it runs is",
        ),
        pytest.param(a_pod(), a_pod(labels={}), [], id="once"),
        pytest.param(
            a_pod(), a_pod(phase="Succeeded"), [("pod j-0-abcde succeeded", TextStyle.PLAIN)], id="a good end"
        ),
        pytest.param(
            a_pod(),
            _failed(_ended(exitCode=3)),
            [("pod j-0-abcde failed: trainer exited with 3", TextStyle.BAD)],
            id="a bad end",
        ),
        pytest.param(a_pod(), _failed(_ended(exitCode=120)), [], id="not of a pod that a failure elsewhere has ended"),
        pytest.param(
            a_pod(),
            _failed(_ended(exitCode=120), _ended(exitCode=2)),
            [("pod j-0-abcde failed: trainer exited with 120; trainer exited with 2", TextStyle.BAD)],
            id="unless something else of it failed",
        ),
        pytest.param(
            a_pod(),
            a_pod(deletionTimestamp="now"),
            [("pod j-0-abcde is being stopped", TextStyle.PLAIN)],
            id="a deletion",
        ),
        pytest.param(
            a_pod(deletionTimestamp="now"),
            a_pod(phase="Failed", deletionTimestamp="now"),
            [],
            id="then no news",
        ),
    ],
)
def test_a_change_of_a_pod_is_one_line(
    before: dict[str, Any] | None, after: dict[str, Any], lines: list[tuple[str, TextStyle]]
) -> None:
    assert list(report_pod(before, after)) == lines


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (_failed(reason="NotPossibleHere", message="a secret"), "NotPossibleHere: a secret"),
        (_failed(_ended(exitCode=137, signal=9)), "trainer was killed by SIGKILL"),
        (_failed(_ended(exitCode=127, reason="StartError", message="no x")), "trainer exited with 127: no x"),
        (_failed(_ended(exitCode=1, reason="Error", message="in the log already")), "trainer exited with 1"),
        (_failed(_ended(exitCode=0), _ended(exitCode=2)), "trainer exited with 2"),
        (_failed(), "its containers exited"),
    ],
)
def test_a_failed_pod_has_a_reason(pod: dict[str, Any], why: str) -> None:
    assert why_failed(pod) == why


_WARM = StartReport(warm=2)
_COLD = StartReport(cold_reason="memory is short")


def _reports(*starts: StartReport | None, round_: int = 2) -> list[NodeReport]:
    return [a_report(f"j-{i}", round_=round_, start=start) for i, start in enumerate(starts)]


@pytest.mark.parametrize(
    ("reports", "lines"),
    [
        pytest.param(_reports(None, None), [], id="no warm start"),
        pytest.param(_reports(_WARM), [], id="not before all have reported it"),
        pytest.param([*_reports(_WARM), *_reports(_WARM, _WARM, round_=1)[1:]], [], id="nor with an earlier round"),
        pytest.param(_reports(_WARM, _WARM), ["the workers of 2 nodes were started warm"], id="all warm"),
        pytest.param(
            _reports(_COLD, StartReport(warm=2, first_output_s=0.1)),
            ["the workers of j-1 were started warm", "the workers of j-0 were started cold: memory is short"],
            id="one cold",
        ),
    ],
)
def test_the_start_of_a_round_is_a_line_for_each_reason(reports: list[NodeReport], lines: list[str]) -> None:
    assert describe_starts(a_view(*reports, rendezvousRound=2, worldSize=4)) == (2, lines)
