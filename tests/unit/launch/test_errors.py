"""The errors of a launch: their exact texts, and that they pickle."""

import multiprocessing
import pickle
import signal

import pytest

from elasticjob_agent.launch import MainProcessError, WorkerError


def test_b_002_06_the_text_of_a_worker_error_is_exact() -> None:
    error = WorkerError(msg="train failed with exit code 7", exitcode=7, worker_id=2)
    assert str(error) == "worker[2] failed with exitcode=7"
    assert error.args == ("train failed with exit code 7",)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (signal.SIGTERM, "SIGTERM received, exiting due to Terminated."),
        (2, "SIGINT received, exiting due to Interrupt."),
    ],
)
def test_b_002_11_the_text_of_a_main_process_error_is_exact(number: int, text: str) -> None:
    error = MainProcessError(signal_no=number)
    assert (str(error), error.signal_no) == (text, number)


@pytest.mark.parametrize("number", [35, 63, 200])
def test_b_002_23_a_signal_without_a_name_has_a_text(number: int) -> None:
    text = str(MainProcessError(signal_no=number))
    assert " received, exiting due to " in text
    assert str(number) in text or str(number - signal.SIGRTMIN) in text


def test_b_002_23_both_errors_pickle_with_all_fields() -> None:
    worker = pickle.loads(pickle.dumps(WorkerError(msg="no", exitcode=-9, worker_id=1)))
    main = pickle.loads(pickle.dumps(MainProcessError(signal_no=15)))
    assert (worker.args, worker.exitcode, worker.worker_id, str(worker)) == (
        ("no",),
        -9,
        1,
        "worker[1] failed with exitcode=-9",
    )
    assert (main.signal_no, str(main)) == (15, "SIGTERM received, exiting due to Terminated.")


def test_b_002_23_constructors_take_keywords_only() -> None:
    with pytest.raises(TypeError):
        WorkerError("no", 1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        MainProcessError(15)  # type: ignore[call-arg]


def test_k_002_09_real_time_signals_have_a_text_and_the_errors_are_process_errors_that_pickle() -> None:
    error = pickle.loads(pickle.dumps(MainProcessError(signal_no=signal.SIGRTMIN + 1)))
    assert str(error).startswith("SIGRTMIN+1 received, exiting due to ")
    assert issubclass(WorkerError, multiprocessing.ProcessError)
    assert issubclass(MainProcessError, multiprocessing.ProcessError)
