"""Messages between agent and fork server, and the error messages of failed starts."""

import errno
import os
import signal
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.supervisor import (
    Command,
    CommandNotExecutable,
    CommandNotFound,
    Null,
    StartError,
    forkserver_protocol,
)
from elasticjob_agent.supervisor.forkserver import child_setup, preforked
from elasticjob_agent.supervisor.preforked import open_link
from elasticjob_api.failure_text import is_command_at_fault

_COMMAND = Command(name="rank 1", argv=("train",), env={"PATH": "/bin"}, cwd="/data", stdout=Null(), stderr=Null())

_TEXT = st.binary().filter(lambda data: b"\0" not in data).map(os.fsdecode)
_NAME = _TEXT.filter(lambda text: text and "=" not in text)


@given(
    argv=st.lists(_TEXT, min_size=1).filter(lambda argv: argv[0]),
    env=st.dictionaries(_NAME, _TEXT),
    cwd=_TEXT,
    cpus=st.frozensets(st.integers(0, 4095)),
)
def test_a_worker_reads_the_command_that_was_encoded(
    argv: list[str], env: dict[str, str], cwd: str, cpus: frozenset[int]
) -> None:
    content = forkserver_protocol.encode(replace(_COMMAND, argv=tuple(argv), env=env, cwd=cwd, cpus=cpus))
    fd = os.memfd_create("command")
    os.write(fd, content)
    read = child_setup.read_command(fd)
    expected_env = {os.fsencode(key): os.fsencode(value) for key, value in env.items()}
    assert read == (sorted(cpus), os.fsencode(cwd), [os.fsencode(word) for word in argv], expected_env)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(replace(_COMMAND, argv=()), "its command is empty", id="no argv"),
        pytest.param(replace(_COMMAND, argv=("", "x")), "its command is empty", id="an empty word"),
        pytest.param(replace(_COMMAND, argv=("a\0b",)), "contains a NUL byte", id="NUL in argv"),
        pytest.param(replace(_COMMAND, env={"A": "\0"}), "contains a NUL byte", id="NUL in env"),
        pytest.param(replace(_COMMAND, cwd="/\0"), "contains a NUL byte", id="NUL in cwd"),
        pytest.param(replace(_COMMAND, env={"A=B": "c"}), "'A=B' is not a valid name", id="equals sign in a name"),
        pytest.param(replace(_COMMAND, env={"": "c"}), "'' is not a valid name", id="an empty name"),
    ],
)
def test_a_command_that_no_process_can_have_is_refused(bad: Command, message: str) -> None:
    with pytest.raises(StartError, match=f"^rank 1: cannot be started: .*{message}"):
        forkserver_protocol.encode(bad)


def test_messages_to_the_fork_server_are_words() -> None:
    assert forkserver_protocol.encode_message("spawn", 7) == b"spawn 7"
    assert forkserver_protocol.encode_message("signal", 8, signal.SIGTERM, of=[1, 2]) == b"signal 8 15 1,2"


def test_events_of_a_worker_that_was_forked_ahead() -> None:
    assert forkserver_protocol.parse(b"preforked 3 4711") == forkserver_protocol.Preforked(3, 4711)
    lost = forkserver_protocol.parse(b"lost 3 /lib/torch.py has changed since it was imported")
    assert lost == forkserver_protocol.Lost(3, "/lib/torch.py has changed since it was imported")
    assert forkserver_protocol.parse(b"lost 3") == forkserver_protocol.Lost(3, "")


@pytest.mark.parametrize("message", [b"preforked 3", b"started 3 4", b"ready now", b"pong", b"hello"])
def test_another_message_is_an_error(message: bytes) -> None:
    with pytest.raises(AssertionError, match="is not a message of the protocol"):
        forkserver_protocol.parse(message)


@pytest.mark.parametrize(("status", "code"), [(0, 0), (77 << 8, 77), (9, -9), (139, -11)])
def test_an_exit_is_decoded(status: int, code: int) -> None:
    event = forkserver_protocol.parse(f"exited 3 {status} 1 12.5 99".encode())
    assert isinstance(event, forkserver_protocol.Exited)
    end = event.exit
    assert (event.number, end.code, end.stopped_by_us, end.at_s, end.wall_ns) == (3, code, True, 12.5, 99)


@pytest.mark.parametrize(("status", "dumped"), [(139, True), (11, False), (139 << 8, False), (0, False)])
def test_a_core_dump_is_decoded(status: int, dumped: bool) -> None:  # noqa: FBT001 - a parameter of the table
    event = forkserver_protocol.parse(f"exited 3 {status} 1 12.5 99".encode())
    assert isinstance(event, forkserver_protocol.Exited)
    assert event.exit.core_dumped == dumped


def test_an_unknown_message_is_refused() -> None:
    with pytest.raises(AssertionError, match="began 3"):
        forkserver_protocol.parse(b"began 3")


@pytest.mark.parametrize(
    ("code", "stage", "kind", "message"),
    [
        (errno.ENOENT, "exec", CommandNotFound, "rank 1: command 'train' not found: no folder of its PATH has it"),
        (errno.EACCES, "exec", CommandNotExecutable, "rank 1: command 'train' cannot be executed: Permission denied"),
        (errno.E2BIG, "exec", StartError, "rank 1: command 'train' cannot be started: Argument list too long"),
        (errno.ENOENT, "cwd", StartError, "rank 1: cannot enter its working directory '/data': No such file"),
        (errno.EAGAIN, "fork", StartError, r"rank 1: cannot be started \(fork\): Resource temporarily unavailable"),
    ],
)
def test_a_failed_start_becomes_a_sentence(code: int, stage: str, kind: type[StartError], message: str) -> None:
    error = forkserver_protocol.start_error(_COMMAND, forkserver_protocol.Failed(1, code, stage))
    assert type(error) is kind
    assert is_command_at_fault(str(error)) is (kind is not StartError)
    with pytest.raises(StartError, match=f"^{message}"):
        raise error


@pytest.mark.parametrize(
    "answer",
    [
        *(b"ready", b"ok", b"", b"2", b"2 a b", b"x exec", b"\xff\xfe", b"5 \n"),
        *(b"0 cwd", b"2 exec", b"9" * 30 + b" cwd"),
    ],
)
def test_an_answer_of_a_worker_that_is_none_is_a_lost_worker(answer: bytes) -> None:
    kind, number, *text = preforked.failure_message(4, answer, is_preforked=True)
    message = " ".join(map(str, (kind, number, *text))).encode("ascii", "backslashreplace")
    assert forkserver_protocol.parse(message) == forkserver_protocol.Lost(4, "its answer was not understood")


@pytest.mark.parametrize(
    ("answers", "has_command", "failure"),
    [
        ([b"ok"], True, b""),
        ([b"nonsense", b"ok"], True, b""),
        ([b"", b"ok"], True, b""),
        ([b"nonsense"], True, b"nonsense"),
        ([b""], True, b"lost it has ended"),
        ([], True, b"lost it has ended"),
        ([b"ok"], False, b"lost its answer was not understood"),
        ([], False, b"lost it has ended"),
    ],
)
def test_a_worker_that_runs_its_command_is_never_started_again(
    answers: list[bytes], failure: bytes, *, has_command: bool
) -> None:
    ours, theirs = open_link()
    with ours, theirs:
        for answer in answers:
            theirs.send(answer)
        assert preforked.read_failure(ours.fileno(), has_command=has_command) == failure
        with pytest.raises(BrokenPipeError):  # a later `ok`: this worker ends before its command
            theirs.send(b"ok")


@pytest.mark.parametrize(
    ("answer", "is_preforked"), [(b"2 exec", False), (b"22 setup", False), (b"524 exec", False), (b"2 cwd", True)]
)
def test_an_error_of_a_command_is_a_failed_start(answer: bytes, *, is_preforked: bool) -> None:
    code, stage = answer.decode().split()
    assert preforked.failure_message(4, answer, is_preforked=is_preforked) == ("failed", 4, code, stage)
