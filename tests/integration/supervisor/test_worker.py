"""The step between fork and exec, alone: the results of its races."""

import os

from elasticjob_agent.supervisor import forkserver_protocol
from elasticjob_agent.supervisor.forkserver import child_setup
from tests.integration.supervisor.commands import Builder


def test_a_worker_whose_fork_server_died_during_the_fork_does_not_start(build: Builder) -> None:
    """The kernel reports a parent's death only after the request for it."""
    command = os.memfd_create("command")
    os.write(command, forkserver_protocol.encode(build("sh", "-c", "exit 7")))
    reader, handshake = os.pipe()
    pid = os.fork()
    if pid == 0:
        child_setup.setup_child(
            command_fd=command,
            stdout=1,
            stderr=2,
            latch=-1,
            extras=[],
            handshake=handshake,
            server_pid=os.getpid(),
            changed_signals=[],
            own_fds=[],
            run=child_setup.execute,
        )
    for fd in (command, handshake):
        os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert os.read(reader, 1) == b""
    os.close(reader)
