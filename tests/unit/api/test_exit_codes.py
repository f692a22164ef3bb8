"""Exit codes over the whole range."""

import signal

import pytest

from elasticjob_api.exit_codes import ExitCode, exit_code_of


@pytest.mark.parametrize("code", range(256))
def test_an_exit_code_passes_through_unchanged(code: int) -> None:
    assert exit_code_of(code) == code


@pytest.mark.parametrize("number", sorted(signal.valid_signals()))
def test_a_death_by_signal_is_128_plus_its_number(number: int) -> None:
    assert exit_code_of(-number) == 128 + number


@pytest.mark.parametrize(("code", "seen"), [(256, 0), (257, 1), (0x1FF, 255)])
def test_a_code_beyond_a_byte_is_what_a_parent_would_see(code: int, seen: int) -> None:
    assert exit_code_of(code) == seen


def test_codes_are_those_that_shells_and_torchrun_users_expect() -> None:
    known = {name: ExitCode[name].value for name in ("OK", "USAGE", "NOT_EXECUTABLE", "NOT_FOUND", "LEFT")}
    assert known == {"OK": 0, "USAGE": 2, "NOT_EXECUTABLE": 126, "NOT_FOUND": 127, "LEFT": 128 + signal.SIGTERM}
    assert ExitCode.INTERRUPTED == 128 + signal.SIGINT


def test_no_two_of_ours_are_alike_and_none_looks_like_an_unknown_signal() -> None:
    codes = [code.value for code in ExitCode]
    assert len(set(codes)) == len(codes)
    assert all(code <= 127 or code - 128 in set(signal.valid_signals()) for code in codes)
