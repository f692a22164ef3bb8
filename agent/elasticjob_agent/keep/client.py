"""The agent's client of its keeper: the process, the socket to it, and what it last reported.

The keeper may end or hang at any time, and training and rounds do not wait for it. A keeper that has ended is replaced;
one that has not answered for ten seconds is killed first. The next one scans the volume and gets the round again.
`seal` has a cap. At the cap the last known holdings are used, and that is counted.
"""

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.keep.keeper.errors import (
    ControlError,
    KeeperError,
    KeeperLost,
    KeeperSilentError,
    RequestRefused,
)
from elasticjob_agent.keep.keeper.messages import (
    Answer,
    BeginRequest,
    DropRequest,
    EraseRequest,
    HoldingsUpdate,
    KeeperStatus,
    LineParser,
    Message,
    Note,
    OpenRequest,
    Request,
    RestoreRequest,
    SealRequest,
    StartedRequest,
    StatusRequest,
    decode_holdings,
    decode_message,
    encode_request,
)
from elasticjob_api.kept_steps import Holdings, KeptStep

logger = logging.getLogger(__name__)

SEAL_S = 0.05
"""Seconds that a round waits for the last published parts to be taken."""
_ANSWER_S = 10.0
"""Seconds after which a keeper without an answer is killed. It answers within milliseconds."""
_END_S = 5.0
_LONG_LIFE_S = 60.0
"""A keeper that lived so long is replaced at once."""
_READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    answer: "asyncio.Future[Answer]"
    deadline: asyncio.TimerHandle


class KeeperClient:
    """The client of the keeper of one agent. All methods belong to one event loop."""

    def __init__(
        self,
        volume: OpenRequest,
        *,
        on_holdings: Callable[[Holdings], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
        first_pause_s: float = 0.05,
        last_pause_s: float = 5.0,
    ) -> None:
        """`on_holdings` is called when the holdings have changed, `on_notice` with a sentence for users.

        `first_pause_s` is the pause before a keeper is replaced. It doubles with each, up to `last_pause_s`.
        """
        self.holdings: Holdings = {}
        """The last known holdings."""
        self.run = ""
        """The run that they belong to; empty if none is known."""
        self.missed_seals = 0
        """How many rounds used the last known holdings because the keeper did not answer in time."""
        self.restarts = 0
        self._volume = volume
        self._on_holdings = on_holdings
        self._on_notice = on_notice
        self._first_pause_s = self._pause_s = first_pause_s
        self._last_pause_s = last_pause_s
        self._loop = asyncio.get_running_loop()
        self._begun: BeginRequest | None = None
        self._has_started = False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lines = LineParser()
        self._unsent = bytearray()
        self._pending: dict[int, _PendingRequest] = {}
        self._last_number = 0
        self._began_s = 0.0
        self._restart: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._connected = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The process id of the keeper; None while there is none."""
        return None if self._process is None else self._process.pid

    # --- for the agent -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the keeper; return when it has opened and scanned the volume.

        Raises:
            RequestRefused: the volume cannot be used.
            KeeperLost: the keeper ended.
            KeeperSilentError: it did not answer in time.
        """
        try:
            await self._answered(self._connect(), _ANSWER_S)
        except KeeperError:
            await self.close()
            raise

    async def begin_round(self, begun: BeginRequest) -> Path:
        """Return the directory in which the workers of this round publish.

        The workers of the round before are reaped.

        Raises:
            RequestRefused: the directory cannot be made.
            KeeperSilentError: no keeper has answered in time.
        """
        self._begun, self._has_started = begun, False
        return Path((await self._ask_again(begun)).directory)

    def report_start(self) -> None:
        """Let the keeper know that the workers of the round have started; from now on it may drop steps."""
        self._has_started = True
        with contextlib.suppress(KeeperLost):  # the next keeper gets it with the round
            self._request(StartedRequest())

    async def seal(self) -> Holdings:
        """Take what the reaped workers have published; return the holdings, or the last known ones at the cap."""
        self._begun = None
        try:
            await self._answered(self._request(SealRequest()), SEAL_S)
        except KeeperError as error:
            self.missed_seals += 1
            logger.warning("the keeper has not taken the last published steps in time, so older ones count: %s", error)
        return self.holdings

    async def restore(self, step: KeptStep) -> Path:
        """Return a directory with the files of all parts of this step.

        Raises:
            RequestRefused: a part is missing, has changed, or collides with another one.
            KeeperSilentError: no keeper has answered in time.
        """
        return Path((await self._ask_again(RestoreRequest(step))).directory)

    async def drop(self, steps: tuple[KeptStep, ...]) -> None:
        """Drop these steps; raise RequestRefused or KeeperSilentError."""
        await self._ask_again(DropRequest(steps))

    async def status(self) -> KeeperStatus:
        """Return the counts of the keeper; raise a KeeperError."""
        answer = await self._answered(self._request(StatusRequest()), _ANSWER_S)
        return answer.status or KeeperStatus()

    async def close(self, *, erase: bool = False) -> None:
        """End the keeper and reap it; with `erase`, delete the volume first. Bounded; may be called again."""
        if self._restart is not None:
            self._restart.cancel()
        if erase and not self._is_closed:
            await self._erase()
        self._is_closed = True
        if self._socket is None:
            return
        self._socket.shutdown(socket.SHUT_WR)
        try:
            async with asyncio.timeout(_END_S):
                await self._ended.wait()
        except TimeoutError:
            self._kill()
            await self._ended.wait()

    async def _erase(self) -> None:
        with contextlib.suppress(KeeperError):
            if self._socket is None:
                self._connect()
            await self._answered(self._request(EraseRequest()), _END_S)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _ask_again(self, request: Request) -> Answer:
        """Return the answer of this keeper or, if it ends, of the next one."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                while True:
                    await self._connected.wait()
                    with contextlib.suppress(KeeperLost):
                        return await self._answered(self._request(request), _ANSWER_S)
        except TimeoutError:
            raise KeeperSilentError(f"no keeper has answered within {_ANSWER_S:.0f} s") from None

    async def _answered(self, pending: _PendingRequest, within_s: float) -> Answer:
        """Return the answer; raise RequestRefused, KeeperLost or KeeperSilentError."""
        try:
            async with asyncio.timeout(within_s):
                answer = await pending.answer
        except TimeoutError:
            raise KeeperSilentError(f"the keeper did not answer within {within_s:g} s") from None
        if answer.error:
            raise RequestRefused(answer.error)
        return answer

    def _request(self, request: Request) -> _PendingRequest:
        """Send a request; raise KeeperLost if there is no keeper at present."""
        if self._socket is None:
            raise KeeperLost("there is no keeper at present; another one is started")
        self._last_number += 1
        number = self._last_number
        pending = _PendingRequest(self._loop.create_future(), self._loop.call_later(_ANSWER_S, self._kill))
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

    def _connect(self) -> _PendingRequest:
        """Start a keeper and let it open the volume; raise KeeperLost if it cannot be started."""
        self._restart = None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _start_process(theirs)
            except OSError as error:
                ours.close()
                raise KeeperLost(f"cannot start a keeper ({sys.executable}): {error.strerror}") from error
        self._began_s = self._loop.time()
        ours.setblocking(False)
        self._socket = ours
        self._lines, self._unsent = LineParser(), bytearray()
        self._ended.clear()
        self._loop.add_reader(ours, self._receive)
        pending = self._request(self._volume)
        if self._begun is not None:
            self._request(self._begun)
            if self._has_started:
                self._request(StartedRequest())
        self._connected.set()
        return pending

    def _connect_again(self) -> None:
        try:
            pending = self._connect()
        except KeeperLost as error:
            logger.warning("%s; the agent tries again in %.1f s", error, self._pause_s)
            self._connect_later()
        else:
            pending.answer.add_done_callback(self._check_opened)

    def _check_opened(self, answer: "asyncio.Future[Answer]") -> None:
        """End a keeper that cannot use the volume; the next one tries again after a pause."""
        if not answer.cancelled() and answer.exception() is None and answer.result().error:
            self._on_notice(f"steps are not kept at present: {answer.result().error}")
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
        try:
            for line in self._lines.feed(data):
                self._on_message(decode_message(line))
        except ControlError as error:
            logger.warning("the keeper is replaced: %s", error)
            self._kill()

    def _on_message(self, message: Message) -> None:
        match message:
            case Answer():
                if message.holdings is not None:
                    self._accept(decode_holdings(message.holdings))
                self.run = message.run or self.run
                if pending := self._pending.pop(message.request, None):
                    pending.deadline.cancel()
                    if not pending.answer.done():
                        pending.answer.set_result(message)
            case HoldingsUpdate(holdings):
                self._accept(decode_holdings(holdings))
            case Note(text):
                self._on_notice(text)

    def _accept(self, holdings: Holdings) -> None:
        if holdings != self.holdings:
            self.holdings = holdings
            self._on_holdings(holdings)

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
        if self._loop.time() - self._began_s > _LONG_LIFE_S:
            self._pause_s = self._first_pause_s
        logger.warning("the keeper ended with code %s; another one starts in %.2f s", code, self._pause_s)
        self._connect_later()


def _start_process(theirs: socket.socket) -> "subprocess.Popen[bytes]":
    # -P: the working directory may have modules with the names of others. The keeper imports what this process imports.
    path = os.pathsep.join(each for each in sys.path if each)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "elasticjob_agent.keep.keeper", str(theirs.fileno()), str(os.getpid())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
