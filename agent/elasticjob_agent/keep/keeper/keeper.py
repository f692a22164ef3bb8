"""The keeper: one thread that acts on the agent's requests and takes what is published.

It waits in one selector for the agent, for names that appear, and for other threads. It ends when its agent ends: the
socket closes, and the kernel kills it. It may be killed at any time: the next keeper scans the directories.
"""

import contextlib
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable

from elasticjob_agent.keep.keeper.control_connection import ControlConnection
from elasticjob_agent.keep.keeper.errors import KeeperError, RequestRefused
from elasticjob_agent.keep.keeper.messages import (
    Answer,
    BeginRequest,
    DropRequest,
    EraseRequest,
    HoldingsUpdate,
    Note,
    OpenRequest,
    Request,
    RestoreRequest,
    SealRequest,
    StartedRequest,
    StatusRequest,
    decode_request,
    encode_holdings,
)
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.volume.errors import VolumeError

_BACKGROUND_NICE = 10
"""Deletions and copies yield to the training; taking and sealing do not."""
_MOST_NOTICES = 100
"""In each round. A script can cause any number of them."""


class Keeper:
    """The keeper of one agent."""

    def __init__(self, agent: socket.socket) -> None:
        self._agent = ControlConnection(agent)
        self._steps: StepKeeper | None = None
        self._notices: deque[str] = deque(maxlen=_MOST_NOTICES)
        self._notices_left = _MOST_NOTICES
        self._has_changed = threading.Event()
        self._has_trash = threading.Event()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def run(self) -> None:
        """Serve the agent until it ends; raise ControlError if it sends what is no request."""
        while (lines := self._wait()) is not None:
            for line in lines:
                self._agent.send(self._answer(*decode_request(line)))
            self._take_new()
            self._send_changes()
            self._has_trash.set()

    def _wait(self) -> list[bytes] | None:
        """Wait until something has happened; return the lines that the agent has sent, None at its end."""
        watch = None if self._steps is None else self._steps.watch
        with selectors.PollSelector() as selector:
            interest = selectors.EVENT_WRITE if self._agent.has_waiting else 0
            selector.register(self._agent, selectors.EVENT_READ | interest)
            selector.register(self._wakeup, selectors.EVENT_READ)
            if watch is not None and watch.fd >= 0:
                selector.register(watch.fd, selectors.EVENT_READ)
            selector.select(None if watch is None else watch.pause_s)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        self._agent.flush()
        return self._agent.receive()

    # --- requests ----------------------------------------------------------------------------------------------------

    def _answer(self, number: int, request: Request) -> Answer:
        try:
            return self._act(number, request)
        except (VolumeError, KeeperError) as error:
            return Answer(number, error=str(error))

    def _act(self, number: int, request: Request) -> Answer:
        if isinstance(request, OpenRequest):
            return self._open(number, request)
        if self._steps is None:
            raise RequestRefused("the volume is not open")
        return self._act_on(self._steps, number, request)

    def _act_on(self, steps: StepKeeper, number: int, request: Request) -> Answer:
        match request:
            case BeginRequest():
                self._notices_left = _MOST_NOTICES
                return Answer(number, directory=str(steps.begin(request)), holdings=self._holdings())
            case SealRequest():
                return Answer(number, holdings=encode_holdings(steps.seal()))
            case RestoreRequest(step):
                return Answer(number, directory=str(steps.restore(step)))
            case StatusRequest():
                return Answer(number, status=steps.status())
            case StartedRequest():
                steps.start()
            case DropRequest(dropped):
                steps.drop(dropped)
            case EraseRequest():
                steps.erase()
        return Answer(number)

    def _open(self, number: int, request: OpenRequest) -> Answer:
        if self._steps is not None:
            raise RequestRefused("the volume is open already")
        self._steps = StepKeeper(request, report=self._report, on_change=self._on_change)
        thread = threading.Thread(target=self._empty_trash, args=(self._steps,), name="trash", daemon=True)
        thread.start()
        return Answer(number, run=self._steps.volume.run, holdings=self._holdings())

    def _holdings(self) -> dict[str, str]:
        return {} if self._steps is None else encode_holdings(self._steps.volume.holdings())

    # --- what was not asked for --------------------------------------------------------------------------------------

    def _take_new(self) -> None:
        if self._steps is not None:
            self._guarded(self._steps.take_new)

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except VolumeError as error:
            self._report(f"published steps were not taken: {error}")

    def _send_changes(self) -> None:
        if self._has_changed.is_set():
            self._has_changed.clear()
            self._agent.send(HoldingsUpdate(self._holdings()))
        while self._notices:
            self._agent.send(Note(self._notices.popleft()))

    def _report(self, sentence: str) -> None:
        """Send this sentence to the agent soon; called from any thread."""
        if self._notices_left > 0:
            self._notices_left -= 1
            self._notices.append(sentence)
            self._wake()

    def _on_change(self) -> None:
        self._has_changed.set()
        self._wake()

    def _wake(self) -> None:
        os.eventfd_write(self._wakeup, 1)

    def _empty_trash(self, steps: StepKeeper) -> None:
        os.nice(_BACKGROUND_NICE)  # of this thread alone
        while self._has_trash.wait():
            self._has_trash.clear()
            steps.volume.empty_trash()
