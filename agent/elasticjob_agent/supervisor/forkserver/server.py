"""The fork server: the one process that forks the workers, reaps them, and kills their trees.

It has a single thread, so a fork is safe whatever the agent has loaded. It uses the standard library only, so it starts
within milliseconds. It waits in one poll for its socket, the handshakes of workers before their exec, and a wake-up
pipe for signals. It decides nothing: forkserver_protocol.py lists its requests and answers.

It is a subreaper: each orphan below it becomes its child. To kill a tree, it kills children until there are none,
because their descendants become its children in turn. The pid of its own child cannot be reused before the fork server
reaps it.

It outlives the agent until everything is killed. So the death of its parent must only wake it, not kill it. A SIGKILL
would end the workers too, by their own parent-death signal, but nothing that they started.
"""

import errno
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

from . import child_setup, prctl, preforked, process_tree, signals
from .forked_worker import ForkedWorker, PendingRequest

_MESSAGE_BYTES = 1 << 16
_MAX_FDS = 253
"""SCM_MAX_FD: the kernel sends no more descriptors in one message."""
_FDS_BYTES = socket.CMSG_SPACE(_MAX_FDS * struct.calcsize("i"))
_SHUTDOWN_TIMEOUT_S = 10.0
_MIN_DELAY_S = 0.01
_MAX_DELAY_S = 0.5


class ForkServer:
    """The state of the one fork server of this process."""

    def __init__(self, agent: socket.socket, agent_pid: int, run: "child_setup.Run") -> None:
        self._agent = agent
        self._run = run
        self._agent_pid = agent_pid
        self._connected = True
        self._workers: dict[int, ForkedWorker] = {}
        self._handshakes: dict[int, ForkedWorker] = {}
        self._arrivals: dict[int, int] = {}
        # The pid of every worker whose tree was not killed yet, dead or alive. It names its session and its group.
        # The kernel does not reuse that number while these have members. When it is reused, the newest worker owns it.
        self._unswept: set[int] = set()
        self._sessions: dict[int, int] = {}
        self._sent_signals: set[tuple[int, int]] = set()
        self._owners: dict[tuple[int, int], int] = {}
        self._waits: list[PendingRequest] = []
        self._pause_s = _MIN_DELAY_S
        self._changed_signals = signals.install_handlers()
        self._wakeup, self._wakeup_end = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(self._wakeup_end, False)
        signal.set_wakeup_fd(self._wakeup_end, warn_on_full_buffer=False)
        self._spare = os.dup(self._wakeup)
        """Closed at the end, whose kills read /proc even if no other number is left."""
        self._poll = select.poll()
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(agent, select.POLLIN)

    def run(self) -> None:
        """Serve the agent until it has ended, then end everything."""
        self._send_message("ready")
        try:
            while self._connected and os.getppid() == self._agent_pid:
                self._run_once()
        finally:
            self._end_everything()

    def _run_once(self) -> None:
        pause_ms = self._pause_s * 1000 if self._waits else None
        ready = self._poll.poll(pause_ms)
        for fd, _ in ready:
            if fd == self._wakeup:
                os.read(self._wakeup, 1024)
            elif fd in self._handshakes:
                self._finish_start(self._handshakes[fd])
            elif fd in self._arrivals:
                self._register_preforked(fd)
            elif fd == self._agent.fileno():  # any other one was closed for an earlier event of this look
                self._receive()
        self._reap()
        self._answer()
        self._pause_s = _MIN_DELAY_S if ready else min(self._pause_s * 2, _MAX_DELAY_S)

    def _end_everything(self) -> None:
        self._disconnect()
        os.close(self._spare)
        for fd in list(self._arrivals):
            self._refuse_arrival(fd)
        deadline_s = time.monotonic() + _SHUTDOWN_TIMEOUT_S
        everything = self._unswept | {one.number for one in self._workers.values()}
        self._waits = [PendingRequest(0, everything)]
        self._answer()
        while self._waits and time.monotonic() < deadline_s:
            self._run_once()

    # --- the agent ---------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            # CLOEXEC: no worker may inherit these under their own numbers. (socket.recv_fds drops its flags.)
            message, ancillary, _, _ = self._agent.recvmsg(_MESSAGE_BYTES, _FDS_BYTES, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            message, ancillary = b"", []
        kind, *arguments = message.decode("ascii").split() or ["disconnected"]
        if kind == "disconnected":
            self._disconnect()
        elif kind in {"spawn", "zygote", "adopt", "use"}:
            fds = [fd for _, _, data in ancillary for (fd,) in struct.iter_unpack("i", data)]
            self._start(kind, int(arguments[0]), fds, expected=int(arguments[1]))
        elif kind == "ping":
            self._send_message("pong", arguments[0])
        elif kind == "signal":
            self._signal(int(arguments[0]), int(arguments[1]), _numbers(arguments[2]))
        elif kind == "kill":
            self._kill(int(arguments[0]), _numbers(arguments[1]))

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            self._poll.unregister(self._agent)

    def _send_message(self, *fields: object) -> None:
        # A blocking send is safe: the agent always reads, and after its end the kernel reports an error.
        with suppress(ConnectionError):
            self._agent.send(" ".join(map(str, fields)).encode("ascii", "backslashreplace"))

    # --- starting ----------------------------------------------------------------------------------------------

    def _start(self, kind: str, number: int, fds: "list[int]", *, expected: int) -> None:
        try:
            self._start_with(kind, number, fds, expected=expected)
        except OSError as error:
            self._send_message("failed", number, error.errno, "fork")
        finally:
            for fd in fds:
                os.close(fd)

    def _start_with(self, kind: str, number: int, fds: "list[int]", *, expected: int) -> None:
        """Do what this request asks for; take from `fds` each descriptor that is kept."""
        if len(fds) != expected:  # the kernel drops descriptors for which this process has no free number
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if kind == "adopt":
            self._adopt(number, fds.pop())
        elif kind == "use":
            self._use(number, fds)
        else:
            self._spawn(number, fds, is_zygote=kind == "zygote")

    def _spawn(self, number: int, fds: "list[int]", *, is_zygote: bool) -> None:
        forked_ns = time.time_ns()
        pid, handshake = child_setup.fork(
            fds, own_fds=self._own_fds(), changed_signals=self._changed_signals, run=self._run
        )
        self._add(ForkedWorker(number, pid, handshake=handshake, forked_ns=forked_ns))
        if not is_zygote:  # it outlives all workers, and starts nothing that is to be killed with them
            self._unswept.add(number)

    def _add(self, new: ForkedWorker) -> None:
        self._workers[new.pid] = self._handshakes[new.handshake] = new
        self._sessions[new.pid] = new.number
        self._poll.register(new.handshake, select.POLLIN)

    def _own_fds(self) -> "list[int]":
        """Return the descriptors that a worker must not have; an exec closes them by itself."""
        return [self._agent.fileno(), self._wakeup, self._wakeup_end, self._spare, *self._handshakes, *self._arrivals]

    def _finish_start(self, one: ForkedWorker) -> None:
        """Read the end of its handshake: the worker runs its command, or has reported its error and ends."""
        if one.is_preforked:
            one.failure = preforked.read_failure(one.handshake, has_command=one.forked_ns > 0)
        else:
            one.failure = os.read(one.handshake, 100)
        self._poll.unregister(one.handshake)
        os.close(one.handshake)
        del self._handshakes[one.handshake]
        one.handshake = -1
        if not one.failure:
            self._send_message("started", one.number, one.pid, one.forked_ns)

    # --- workers that a zygote has forked ----------------------------------------------------------------------

    def _adopt(self, number: int, fd: int) -> None:
        """Wait on this socket for a worker that a zygote forks; it becomes our child, because we are a subreaper."""
        self._arrivals[fd] = number
        self._poll.register(fd, select.POLLIN)

    def _register_preforked(self, fd: int) -> None:
        pid = preforked.sender(fd)
        try:
            process = process_tree.read(pid) if pid else None
        except OSError:  # no descriptor or memory is left
            process = None
        if process is None or process.parent != os.getpid() or pid in self._workers:
            self._refuse_arrival(fd)
            return
        number = self._arrivals.pop(fd)
        self._poll.unregister(fd)
        self._add(ForkedWorker(number, pid, handshake=fd, forked_ns=0, is_preforked=True))
        self._send_message("preforked", number, pid)

    def _refuse_arrival(self, fd: int) -> None:
        """Close the socket of a worker that has not arrived; it ends if it still does."""
        number = self._arrivals.pop(fd)
        self._poll.unregister(fd)
        os.close(fd)
        self._send_message("lost", number, preforked.HAS_ENDED)

    def _use(self, number: int, fds: "list[int]") -> None:
        """Pass a command on to this preforked worker; its answer arrives as that of any worker."""
        one = next((each for each in self._handshakes.values() if each.number == number), None)
        if one is None:
            self._send_message("lost", number, preforked.HAS_ENDED)
            return
        one.forked_ns = time.time_ns()
        self._unswept.add(number)
        preforked.send_command(one.handshake, fds)

    # --- ends --------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                prctl.end_trace(pid, os.WSTOPSIG(status))  # no end: it has asked to be traced by its parent
            elif pid in self._workers:
                self._report_exit(self._workers.pop(pid), status)

    def _report_exit(self, one: ForkedWorker, status: int) -> None:
        at_s, wall_ns = time.monotonic(), time.time_ns()
        if one.handshake >= 0:
            self._finish_start(one)
        if one.failure:
            self._forget({one.number})
            failed = preforked.failure_message(one.number, one.failure, is_preforked=one.is_preforked)
            self._send_message(*failed)
        else:
            self._send_message("exited", one.number, status, int(one.stopped), at_s, wall_ns)

    # --- stopping ----------------------------------------------------------------------------------------------

    def _signal(self, request: int, signum: int, numbers: "set[int]") -> None:
        self._remember_owners(numbers)
        self._waits.append(PendingRequest(request, numbers, signum))

    def _signal_pass(self, numbers: "set[int]", signum: int) -> bool:
        """Send the signal to each of their groups that has not got it; return whether a group has members."""
        groups = self._groups(numbers)
        for group in groups:
            delivery = self._sessions[group], signum
            if delivery not in self._sent_signals:
                self._sent_signals.add(delivery)
                self._signal_group(group, signum)
        return bool(groups)

    def _groups(self, numbers: "set[int]") -> "list[int]":
        """Return those of their process groups that have members, with or without the leader."""
        groups = set(self._workers)
        if not numbers.issubset(one.number for one in self._workers.values()):
            groups.update(process.group for process in self._orphans() if not process.dead)
        return [group for group in groups if self._sessions.get(group) in numbers]

    def _orphans(self) -> "list[process_tree.Process]":
        """Return processes left by ended workers; trees of live workers are not read, as their groups are their own."""
        roots = [process_tree.read(pid) for pid in process_tree.children(os.getpid()) if pid not in self._workers]
        return [each for root in roots if root for each in (root, *process_tree.descendants(root.pid))]

    def _signal_group(self, group: int, signum: int) -> None:
        # The group is ours: its leader was not reaped, or a process below us is in it. So its number was not reused.
        if group in self._workers:
            self._workers[group].stopped = True
        # A stopped process takes no signal but SIGKILL until it is continued.
        for each in (signum, signal.SIGCONT):
            signals.send(os.killpg, group, each)

    def _kill(self, request: int, numbers: "set[int]") -> None:
        for fd in [fd for fd, number in self._arrivals.items() if number in numbers]:
            self._refuse_arrival(fd)
        self._remember_owners(numbers)
        self._waits.append(PendingRequest(request, numbers))

    def _remember_owners(self, numbers: "set[int]") -> None:
        """Record the owners of processes that have left their worker's session, as long as the worker lives."""
        if numbers.issuperset(self._unswept):
            return  # everything is killed, so owners do not matter
        with suppress(OSError):  # nothing is left to read /proc with: orphans are killed with the last worker
            for one in self._workers.values():
                if one.number in numbers:
                    for process in process_tree.descendants(one.pid):
                        self._owners[process.pid, process.started] = one.number

    def _answer(self) -> None:
        for wait in list(self._waits):
            if self._is_left(wait):
                continue
            self._waits.remove(wait)
            if not wait.signum:
                self._forget(wait.numbers)
            self._send_message("done", wait.request)

    def _is_left(self, wait: PendingRequest) -> bool:
        """Send the signals of this request; return whether there was a process to wait for."""
        try:
            if wait.signum:
                return self._signal_pass(wait.numbers, wait.signum)
            return self._kill_pass(wait.numbers, is_request=wait.request > 0)
        except OSError:  # nothing is left to read /proc with: the next look tries again
            return True

    def _kill_pass(self, numbers: "set[int]", *, is_request: bool) -> bool:
        """Send SIGKILL to everything that these trees contain now; return whether there was anything."""
        # The owner of an orphan that has left its session is unknown. It is killed with the last of the workers that
        # may have started it. So it never outlives them, and no process of another worker is killed.
        all_of_them = numbers.issuperset(self._unswept)
        for pid, one in self._workers.items():  # first, because it reads nothing
            if one.number in numbers:
                one.stopped = one.stopped or is_request
                self._kill_child(pid)
        left = [
            pid
            for pid in process_tree.children(os.getpid())
            if self._is_descendant(pid, numbers, all_of_them=all_of_them)
        ]
        for pid in left:
            self._kill_child(pid)
        # Their descendants become our children as they die. They are killed here as well, because a process that hangs
        # in the kernel keeps its own. This comes second because it takes longer.
        for pid in left:
            for process in process_tree.descendants(pid):
                process_tree.kill(process)
        return bool(left)

    def _is_descendant(self, pid: int, numbers: "set[int]", *, all_of_them: bool) -> bool:
        if pid in self._workers:
            return self._workers[pid].number in numbers
        owner = self._owner(pid)
        # An owner outside `numbers` is a zygote that is just forking: its workers are not those of a round.
        return all_of_them if owner is None else owner in numbers

    def _owner(self, orphan: int) -> "int | None":
        process = process_tree.read(orphan)
        if not process:
            return None
        return self._sessions.get(process.session, self._owners.get((orphan, process.started)))

    def _kill_child(self, pid: int) -> None:
        """Send SIGKILL to this child and, if it is a worker, to its group at once, so that no fork of it escapes."""
        if pid in self._workers:
            signals.send(os.killpg, pid, signal.SIGKILL)
        signals.send(os.kill, pid, signal.SIGKILL)  # a worker that has not called setsid yet has no group

    def _forget(self, numbers: "set[int]") -> None:
        self._unswept -= numbers
        self._sessions = {pid: number for pid, number in self._sessions.items() if number not in numbers}
        self._sent_signals = {(number, signum) for number, signum in self._sent_signals if number not in numbers}
        self._owners = {process: number for process, number in self._owners.items() if number not in numbers}


def _numbers(text: str) -> "set[int]":
    return {int(word) for word in text.split(",")}


def serve(agent: socket.socket, agent_pid: int, run: "child_setup.Run" = child_setup.execute) -> None:
    """Be the fork server of this agent until it has ended, then end this process.

    Args:
        agent: the socket whose other end the agent has.
        agent_pid: our parent while it lives.
        run: the last step of a forked worker; by default it executes its command.
    """
    agent.set_inheritable(False)  # it came through an exec; workers must not inherit it
    prctl.become_subreaper()
    fork_server = ForkServer(agent, agent_pid, run)
    # After the handler is installed. The first call of getppid notices an agent that has already ended.
    prctl.signal_on_parent_death(signal.SIGTERM)
    fork_server.run()
    os._exit(0)  # at once: the agent waits for this, and there is nothing to finalize


def main() -> None:
    """Run the fork server for the socket and the agent of the command line."""
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
