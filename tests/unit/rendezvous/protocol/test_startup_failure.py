"""Which failures are of the start, so that a row of them is delayed."""

import pytest

from elasticjob_agent.rendezvous.protocol.startup_failure import OUTPUT_COUNTS_S, WORKING_LIFE_S, is_startup_failure

SHORT_S = 0.01


@pytest.mark.parametrize(
    ("life_s", "has_output", "is_startup"),
    [
        pytest.param(WORKING_LIFE_S - SHORT_S, False, True, id="a short life without output"),
        pytest.param(WORKING_LIFE_S, False, False, id="some seconds without output"),
        pytest.param(OUTPUT_COUNTS_S - SHORT_S, True, True, id="a line of output and an end at once"),
        pytest.param(OUTPUT_COUNTS_S, True, False, id="output, and a second of life"),
    ],
)
def test_without_a_report_life_and_output_prove_work(life_s: float, *, has_output: bool, is_startup: bool) -> None:
    found = is_startup_failure(life_s=life_s, has_progress=False, has_output=has_output, message="ValueError: x")
    assert found is is_startup


@pytest.mark.parametrize("message", ["", "ValueError: x", "ImportError: x"])
def test_reported_progress_proves_work_however_short_the_life(message: str) -> None:
    assert not is_startup_failure(life_s=0.0, has_progress=True, has_output=False, message=message)


@pytest.mark.parametrize("error", ["ImportError: x", "ModuleNotFoundError: No module named 'x'", "SyntaxError: x"])
def test_an_error_of_an_import_is_of_the_start_however_late(error: str) -> None:
    assert is_startup_failure(life_s=600.0, has_progress=False, has_output=True, message=error)
