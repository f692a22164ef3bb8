"""The lines of the doctor: wrapped on a terminal, a line for each finding in a pipe."""

import pytest

from elasticjob_cli.commands import doctor
from elasticjob_cli.doctor.finding import fail

FINDING = fail("operator", "no Deployment of it " * 8, "install the chart " * 8)


def test_in_a_pipe_a_finding_is_one_line_and_its_cure_another(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.show(FINDING, columns=None)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_on_a_terminal_a_long_finding_is_wrapped_below_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.show(FINDING, columns=80)
    first, *rest = capsys.readouterr().out.splitlines()
    assert max(map(len, [first, *rest])) <= 80
    assert all(line.startswith(" " * 24) for line in rest)
