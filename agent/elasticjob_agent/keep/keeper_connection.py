"""The process of a keeper and the socket to it, at the agent's end: requests with answers, and replacement.

The keeper may end or hang at any time. One that has ended is replaced. One that has not answered for ten seconds is
killed first. While an answer is waited for, a keeper that hangs is killed at once.
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from elasticjob_agent.keep.keeper.errors import ControlError, KeeperLost, KeeperSilentError, RequestRefused
from elasticjob_agent.keep.keeper.line_parser import LineParser
from elasticjob_agent.keep.keeper.messages import Answer, Message, Request, decode_message, encode_request
from elasticjob_agent.keep.keeper_process import start_keeper
from elasticjob_agent.keep.process_sample import ProcessSample, is_working, take_sample
from elasticjob_agent.keep.transfer.listener import open_listener

logger = logging.getLogger(__name__)

ANSWER_S = 10.0
"""Seconds after which a keeper without an answer is killed. It answers within milliseconds."""
START_S = 60.0
"""The same for one that has not opened the volume yet: a machine with too much to do starts processes slowly."""
_LONG_LIFE_S = 60.0
"""A keeper that lived so long, and has opened the volume, is replaced at once."""
_READ_BYTES = 1 << 18
_LOOK_S = 0.025
"""Seconds between looks whether a keeper that has not answered yet works; no event reports that."""
_REPLACED_SOON_S = 0.5


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request without an answer yet, and the timer that ends a keeper which does not give it."""

    answer: "asyncio.Future[Answer]"
    deadline: asyncio.TimerHandle


class KeeperConnection:
    """The connection to the keeper of one agent. All methods belong to one event loop."""

    def __init__(self, host: str, *, first_pause_s: float, last_pause_s: float) -> None:
        """`host` is the address on which peers reach each keeper; empty if there is none.

        `first_pause_s` is the pause before a keeper is replaced. It doubles with each, up to `last_pause_s`.
        """
        self.restarts = 0
        self._host = host
        self._listener: socket.socket | None = None
        """Where peers connect to the keeper of now, and to each later one."""
        self._first_pause_s = self._pause_s = first_pause_s
        self._last_pause_s = last_pause_s
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lines = LineParser()
        self._unsent = bytearray()
        self._pending: dict[int, PendingRequest] = {}
        self._last_number = 0
        self._began_s = 0.0
        self._heard_s = 0.0
        """When the keeper has sent something last."""
        self._restart: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_open = False
        """Whether the keeper of now has answered; its first request opens the volume."""
        self._connected = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The process id of the keeper; None while there is none."""
        return None if self._process is None else self._process.pid

    # --- for the client ----------------------------------------------------------------------------------------------

    def _first_requests(self, trouble: str) -> Iterable[Request]:
        """Return what a new keeper is asked for; the first one opens the volume.

        `trouble` is why peers cannot reach it.
        """
        raise NotImplementedError

    def _on_event(self, message: Message) -> None:
        """Act on a message of the keeper, before the request that it may answer ends."""
        raise NotImplementedError

    def _on_opened(self, error: str) -> None:
        """Act on a new keeper that has opened the volume; with an error it has not, and another one tries again."""
        raise NotImplementedError

    def _on_early_end(self, why: str) -> None:
        """Act on a keeper that has ended before it opened the volume; another one is started."""
        raise NotImplementedError

    # --- requests ----------------------------------------------------------------------------------------------------

    def _notify(self, request: Request) -> None:
        """Send a request without waiting; the next keeper gets it if there is none now."""
        with contextlib.suppress(KeeperLost):
            self._request(request)

    async def _ask_again(self, request: Request) -> Answer:
        """Return the answer of this keeper or, if it ends or hangs, of the next one."""
        until_s = self._loop.time() + ANSWER_S
        try:
            async with asyncio.timeout(ANSWER_S):
                while True:
                    await self._connected.wait()
                    with contextlib.suppress(KeeperLost):
                        return await self._answered_while_working(self._request(request), until_s)
        except TimeoutError:
            raise KeeperSilentError(f"no keeper has answered within {ANSWER_S:.0f} s") from None

    async def _ask_soon(self, request: Request, within_s: float) -> Answer:
        """Return the answer of this keeper or, if it ends or hangs, of the next one; wait for no later one.

        Raises:
            RequestRefused: the keeper cannot do it.
            KeeperLost: there is no keeper, and none soon.
            KeeperSilentError: the keeper works, and `within_s` is over.
        """
        until_s = self._loop.time() + within_s
        while self._loop.time() < until_s:
            await self._await_replacement()
            with contextlib.suppress(KeeperLost):
                return await self._answered_while_working(self._request(request), until_s)
        raise KeeperLost("the keepers end before they answer")

    async def _await_replacement(self) -> None:
        """Return when there is a keeper; raise KeeperLost if the next one starts too late."""
        if self._socket is None:
            if self._restart is None or self._restart.when() > self._loop.time() + _REPLACED_SOON_S:
                raise KeeperLost("there is no keeper at present; another one is started")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * _REPLACED_SOON_S):
                    await self._connected.wait()

    async def _answered_while_working(self, pending: PendingRequest, until_s: float) -> Answer:
        """Return the answer of a keeper that works; end one that hangs, so that the next one can give the answer.

        One that starts is not ended here: it may wait for the disk, or for a lock of its predecessor.
        """
        before = ProcessSample(run_ns=-1)
        while not (await asyncio.wait({pending.answer}, timeout=_LOOK_S))[0]:
            if self._loop.time() >= until_s:
                raise KeeperSilentError("the keeper did not answer in time, though it works")
            now = ProcessSample() if self._process is None else take_sample(self._process.pid)
            if self._is_open and not is_working(before, now):
                self._kill()
            before = now
        return await self._answered(pending, 0.0)

    async def _answered(self, pending: PendingRequest, within_s: float) -> Answer:
        """Return the answer; raise RequestRefused, KeeperLost or KeeperSilentError."""
        try:
            async with asyncio.timeout(within_s):
                answer = await pending.answer
        except TimeoutError:
            raise KeeperSilentError(f"the keeper did not answer within {within_s:g} s") from None
        if answer.error:
            raise RequestRefused(answer.error)
        return answer

    def _request(self, request: Request) -> PendingRequest:
        """Send a request; raise KeeperLost if there is no keeper at present."""
        if self._socket is None:
            raise KeeperLost("there is no keeper at present; another one is started")
        self._last_number += 1
        number = self._last_number
        limit_s = ANSWER_S if self._is_open else START_S
        pending = PendingRequest(self._loop.create_future(), self._loop.call_later(limit_s, self._kill))
        self._pending[number] = pending
        self._unsent += encode_request(number, request)
        self._flush()
        return pending

    def _flush(self) -> None:
        if self._socket is None:
            return
        with contextlib.suppress(ConnectionError):  # its end is read soon
            try:
                while self._unsent:
                    del self._unsent[: self._socket.send(self._unsent)]
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._flush)
                return
        self._loop.remove_writer(self._socket)

    # --- the process -------------------------------------------------------------------------------------------------

    def _connect(self) -> PendingRequest:
        """Start a keeper and let it open the volume; raise KeeperLost if it cannot be started."""
        self._restart = None
        trouble = self._listen()
        try:
            ours, theirs = socket.socketpair()
            with theirs, contextlib.ExitStack() as opened:
                opened.enter_context(ours)
                self._process = start_keeper(theirs, self._listener)
                opened.pop_all()
        except OSError as error:  # also: this process has no descriptor left
            raise KeeperLost(f"cannot start a keeper ({sys.executable}): {error.strerror}") from error
        self._began_s = self._loop.time()
        ours.setblocking(False)
        self._socket = ours
        self._lines, self._unsent, self._is_open = LineParser(), bytearray(), False
        self._ended.clear()
        self._loop.add_reader(ours, self._receive)
        pending, *_ = [self._request(request) for request in self._first_requests(trouble)]
        pending.answer.add_done_callback(self._check_opened)
        self._connected.set()
        return pending

    def _listen(self) -> str:
        """Listen for peers, unless that is so already; return what is in the way."""
        if self._host and self._listener is None:
            try:
                self._listener = open_listener(self._host)
            except OSError as error:
                return f"the keeper cannot listen on {self._host}: {error.strerror or error}"
        return ""

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _connect_again(self) -> None:
        try:
            self._connect()
        except KeeperLost as error:
            logger.warning("%s; the agent tries again in %.1f s", error, self._pause_s)
            self._connect_later()

    def _check_opened(self, answer: "asyncio.Future[Answer]") -> None:
        """End a keeper that cannot use the volume; the next one tries again after a pause."""
        if answer.cancelled() or answer.exception() is not None:
            return
        self._on_opened(answer.result().error)
        if answer.result().error:
            self._kill()

    def _connect_later(self) -> None:
        self._restart = self._loop.call_later(self._pause_s, self._connect_again)
        self._pause_s = min(2 * self._pause_s, self._last_pause_s)

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._end()
            return
        self._heard_s = self._loop.time()
        try:
            for line in self._lines.feed(data):
                self._on_message(decode_message(line))
        except ControlError as error:
            logger.warning("the keeper is replaced: %s", error)
            self._kill()

    def _on_message(self, message: Message) -> None:
        self._on_event(message)
        self._is_open |= isinstance(message, Answer)
        if isinstance(message, Answer) and (pending := self._pending.pop(message.request, None)):
            pending.deadline.cancel()
            if not pending.answer.done():
                pending.answer.set_result(message)

    def _end(self) -> None:
        """Reap the keeper, and start the next one soon."""
        assert self._socket is not None
        assert self._process is not None
        self._connected.clear()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._socket = None
        # Its end of the socket closes only when it exits, so this wait takes microseconds.
        code = self._process.wait()
        self._process = None
        for pending in self._pending.values():
            pending.deadline.cancel()
            if not pending.answer.done():
                pending.answer.set_exception(KeeperLost(f"the keeper ended with code {code}"))
                pending.answer.exception()  # it may be that no one waits for it
        self._pending.clear()
        self._ended.set()
        if not self._is_closed:
            self._replace(code)

    def _replace(self, code: int) -> None:
        self.restarts += 1
        if self._is_open and self._loop.time() - self._began_s > _LONG_LIFE_S:
            self._pause_s = self._first_pause_s
        logger.warning("the keeper ended with code %s; another one starts in %.2f s", code, self._pause_s)
        if not self._is_open:
            self._on_early_end(f"the keeper ended with code {code} before it could use its directory")
        self._connect_later()
