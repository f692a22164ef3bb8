"""The errors: one class tree, a shell's exit codes, and all fields after pickling."""

import pickle

import pytest

from elasticjob_agent.supervisor import (
    CommandNotExecutable,
    CommandNotFound,
    ForkServerLost,
    StartError,
    SupervisorError,
)

_ERRORS = [
    CommandNotFound("no train", command="train", path="/bin"),
    CommandNotExecutable("no x bit", command="train"),
    ForkServerLost("ended"),
    StartError("other"),
]


@pytest.mark.parametrize("error", _ERRORS)
def test_an_error_survives_pickling_with_its_fields(error: StartError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert isinstance(copy, SupervisorError)


def test_exit_codes_are_those_of_a_shell() -> None:
    assert [error.exit_code for error in _ERRORS[:2]] == [127, 126]
