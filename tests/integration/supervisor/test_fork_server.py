"""The fork server by itself, on its socket: no event makes it wait for one that may never come."""

import signal
import socket
from collections.abc import Iterator

import psutil
import pytest

from elasticjob_agent.supervisor.forkserver_protocol import encode_message
from elasticjob_agent.supervisor.launchers import ExecLauncher
from elasticjob_agent.supervisor.preforked import open_link
from testing.waiting import eventually, scaled
from tests.integration.supervisor.commands import take_descriptors


class _Agent:
    """The agent's end of a fork server."""

    def __init__(self, link: socket.socket, process: psutil.Process) -> None:
        self._link = link
        self.process = process

    def send(self, message: bytes, *files: socket.socket) -> None:
        socket.send_fds(self._link, [message], [each.fileno() for each in files])

    def read(self) -> str:
        return self._link.recv(1000).decode()

    def adopt(self, number: int) -> socket.socket:
        """Return the worker's end of a socket, on which the fork server waits for this worker."""
        ours, theirs = open_link()
        with ours:
            self.send(encode_message("adopt", number, 1), ours)
        self.send(encode_message("ping", 1))
        assert self.read() == "pong 1"
        return theirs


@pytest.fixture
def agent() -> Iterator[_Agent]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(scaled(10))
    with ours:
        with theirs:
            process = ExecLauncher().start(theirs)
        agent = _Agent(ours, psutil.Process(process.pid))
        assert agent.read() == "ready"
        yield agent
    process.wait()


def test_a_worker_that_ends_as_it_is_to_be_killed_does_not_stop_the_fork_server(agent: _Agent) -> None:
    """Both events are there in one look: the request closes the socket of the worker that has ended."""
    with agent.adopt(7):
        agent.process.send_signal(signal.SIGSTOP)
        eventually(lambda: agent.process.status() == psutil.STATUS_STOPPED, what="the stop of the fork server")
    agent.send(encode_message("kill", 2, of=[7]))
    agent.process.send_signal(signal.SIGCONT)
    assert [agent.read(), agent.read()] == ["lost 7 it has ended", "done 2"]


def test_a_worker_that_arrives_while_no_descriptor_is_left_is_refused(agent: _Agent) -> None:
    with agent.adopt(7) as theirs:
        take_descriptors(agent.process.pid)
        theirs.send(b"ready")
        assert agent.read() == "lost 7 it has ended"
        agent.send(encode_message("ping", 2))
        assert agent.read() == "pong 2"
