"""The agent's client of one fork server: its process, and the socket to it.

forkserver_protocol.py defines the messages; the supervisor interprets them. A client is used once. When the fork server
has ended, `on_end` is called once, and the client cannot be used again.

The fork server gets a session of its own. So neither Ctrl-C at a terminal nor a kill of the agent's process group
reaches it, and it can end the workers.
"""

import asyncio
import itertools
import logging
import socket
from collections.abc import Callable, Sequence

from elasticjob_agent.supervisor import fd_registry, forkserver_protocol
from elasticjob_agent.supervisor.answer_time import AnswerMeter, read_sample
from elasticjob_agent.supervisor.errors import ForkServerLost, StartError
from elasticjob_agent.supervisor.launchers import Launcher

log = logging.getLogger(__name__)

_END_S = 15.0
"""Seconds for its end after its socket was closed. After 10 s it no longer waits for processes that cannot be killed.
"""
_MESSAGE_BYTES = 4096
_SHOWN_BYTES = 100
_SHORTEST_S = 0.05
"""Seconds between two looks at a fork server that is late."""


class ForkServerClient:
    """The client of one fork server."""

    def __init__(
        self, launcher: Launcher, on_event: Callable[[forkserver_protocol.Event], None], on_end: Callable[[str], None]
    ) -> None:
        """`on_end` gets how the fork server has ended: the end of a sentence."""
        self._launcher = launcher
        self._ending = "has ended"
        self._has_ignored = False
        self._start_refusal = ""
        self._loop = asyncio.get_running_loop()
        self._on_event = on_event
        self._on_end = on_end
        self._ready = asyncio.Event()
        self._ping_numbers = itertools.count(1)
        self._pings: dict[int, asyncio.Event] = {}
        self._can_send = asyncio.Event()
        self._ended = asyncio.Event()
        self._sending = asyncio.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd_registry.register_object(self._socket)
        try:
            with theirs:
                self._process = launcher.start(theirs)
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._receive)

    @property
    def pid(self) -> int:
        """Return the process id of the fork server."""
        return self._process.pid

    @property
    def lost(self) -> bool:
        """Whether the fork server has ended."""
        return self._ended.is_set()

    async def wait_ready(self) -> None:
        """Return when the fork server accepts commands.

        Raises:
            ForkServerLost: it did not start; it has ended now, so the next spawn starts another one.
            StartError: it refused to start.
        """
        try:
            async with asyncio.timeout(self._launcher.start_s):
                await self._ready.wait()
        except TimeoutError:
            await self._kill()
            raise ForkServerLost(
                f"{self._launcher.description} did not start within {self._launcher.start_s:.0f} s"
            ) from None
        if self._start_refusal:
            raise StartError(f"{self._launcher.description} refused to start: {self._start_refusal}")
        if self.lost:
            code = self._process.returncode
            raise ForkServerLost(f"{self._launcher.description} ended with code {code} during its start")

    async def send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        """Send one message; messages arrive in the order of the calls.

        Raises:
            ForkServerLost: the fork server has ended.
        """
        async with self._sending:
            while not self._try_send(message, fds):
                await self._writable()

    async def end_if_hanging(self, *, within_s: float) -> bool:
        """Kill the fork server if it does not answer in this time; return whether it was killed, and has ended.

        The time in which it waits for a processor does not count, up to ten times as much.
        """
        # The answer to an earlier question, whose wait was cancelled, is no answer to this one.
        number = next(self._ping_numbers)
        answered = self._pings[number] = asyncio.Event()
        try:
            if await self._await_answer(number, answered, within_s=within_s):
                return False
        finally:
            del self._pings[number]
        log.warning("%s did not answer within %.1f s; it is killed", self._launcher.description, within_s)
        self._ending = "hung, and was killed"
        await self._kill()
        return True

    async def _await_answer(self, number: int, answered: asyncio.Event, *, within_s: float) -> bool:
        """Send this question; return whether the fork server has answered it in time, or has ended."""
        meter = AnswerMeter(read_sample(self.pid), within_s=within_s)
        is_sent, left_s = False, within_s
        while left_s > 0:
            try:
                async with asyncio.timeout(max(left_s, _SHORTEST_S)):
                    if not is_sent:
                        await self.send(forkserver_protocol.encode_message("ping", number))
                        is_sent = True
                    await answered.wait()
            except ForkServerLost:
                return True
            except TimeoutError:
                left_s = meter.left_s(read_sample(self.pid))
            if answered.is_set():  # a loop that was late finds the answer and the timeout in the same turn
                return True
        return False

    async def close(self) -> None:
        """End the fork server, which ends everything below it, and reap it. Bounded; may be called again."""
        if not self.lost:
            self._socket.shutdown(socket.SHUT_WR)
        try:
            async with asyncio.timeout(_END_S):
                await self._ended.wait()
        except TimeoutError:
            await self._kill()

    async def _kill(self) -> None:
        """Kill the fork server, and return when it has ended."""
        self._process.kill()
        await self._ended.wait()

    def _try_send(self, message: bytes, fds: Sequence[int]) -> bool:
        if self.lost:
            raise ForkServerLost("the fork server has ended; the next spawn starts a new one")
        try:
            socket.send_fds(self._socket, [message], fds)
        except BlockingIOError:
            return False
        except ConnectionError as error:
            self._receive()  # messages from before its death still count; then comes the end
            raise ForkServerLost("the fork server has just died; the next spawn starts a new one") from error
        return True

    async def _writable(self) -> None:
        self._can_send.clear()
        self._loop.add_writer(self._socket, self._can_send.set)
        try:
            await self._can_send.wait()
        finally:
            if not self.lost:
                self._loop.remove_writer(self._socket)

    def _receive(self) -> None:
        while True:
            try:
                message = self._socket.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:  # it died with messages of ours unread
                message = b""
            if not message:
                self._end()
                return
            try:
                event = forkserver_protocol.parse(message)
            except (AssertionError, ValueError, OverflowError):
                self._ignore(message)
            else:
                self._on_message(event)

    def _ignore(self, message: bytes) -> None:
        """Log the first message that is none: an import of a fork server with preload has its socket, too."""
        if not self._has_ignored:
            self._has_ignored = True
            log.warning(
                "%s sent %r, which is no message; it is ignored, as are later ones",
                *(self._launcher.description, message[:_SHOWN_BYTES]),
            )

    def _on_message(self, event: forkserver_protocol.Event) -> None:
        match event:
            case forkserver_protocol.Ready():
                self._ready.set()
            case forkserver_protocol.Answer(number):
                if number in self._pings:
                    self._pings[number].set()
            case forkserver_protocol.Refused(why):
                self._start_refusal = why
            case _:
                self._on_event(event)

    def _end(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        # Its end of the socket closes only when it exits, so this wait takes microseconds.
        self._process.wait()
        self._ended.set()
        for waiting in (self._ready, self._can_send, *self._pings.values()):
            waiting.set()
        self._on_end(self._ending)
