"""The keeper: one thread that acts on the agent's requests and takes what is published.

It waits in one selector for the agent, for names that appear, and for the threads of transfers. It ends when its agent
ends: the socket closes, and the kernel kills it. It may be killed at any time: the next keeper scans the directories.
"""

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from dataclasses import replace

from elasticjob_agent.keep.keeper.control_connection import ControlConnection
from elasticjob_agent.keep.keeper.departure_wait import DepartureWait
from elasticjob_agent.keep.keeper.errors import KeeperError, RequestRefused
from elasticjob_agent.keep.keeper.messages import (
    Answer,
    BeginRequest,
    DropRequest,
    EraseRequest,
    FetchRequest,
    FetchResult,
    HoldingsUpdate,
    JoinRequest,
    LingerRequest,
    Note,
    OpenRequest,
    PeersRequest,
    ProgressUpdate,
    Request,
    RestoreRequest,
    SealRequest,
    StartedRequest,
    StatusRequest,
    decode_request,
    encode_holdings,
)
from elasticjob_agent.keep.keeper.peer_connections import PeerConnections
from elasticjob_agent.keep.keeper.persist_messages import DrainRequest, DrainResult, ListRequest, PersistUpdate
from elasticjob_agent.keep.keeper.persistence import Persistence
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.volume.errors import ResourcesShortError, VolumeError

_BACKGROUND_NICE = 10
"""Copies yield to the training, and deletions while memory is left for them; taking and sealing do not."""
_MOST_NOTICES = 100
"""In each round. A script can cause any number of them."""


class Keeper:
    """The keeper of one agent."""

    def __init__(self, agent: socket.socket, listener: socket.socket | None) -> None:
        """`listener` is where peers connect; None if the agent has no address for it."""
        self._agent = ControlConnection(agent)
        self._listener = listener
        self._steps: StepKeeper | None = None
        self._peers: PeerConnections | None = None
        self._departure: DepartureWait | None = None
        self._progress = ProgressUpdate()
        self._persistence: Persistence | None = None
        self._unsent: deque[FetchResult | DrainResult | PersistUpdate] = deque()
        """The messages of other threads to the agent."""
        self._notices: deque[str] = deque(maxlen=_MOST_NOTICES)
        self._notices_left = _MOST_NOTICES
        self._has_changed = threading.Event()
        self._has_trash = threading.Event()
        self._has_only_names = False
        """Whether nothing has happened but names that have appeared in the directory of the round."""
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def run(self) -> None:
        """Serve the agent until it ends.

        Raises:
            ControlError: it has sent what is no request.
            ResourcesShortError: this process or the machine lacks descriptors or memory.
        """
        while (lines := self._wait()) is not None:
            for line in lines:
                self._agent.send(self._answer(*decode_request(line)))
            if self._take_new() or lines or not self._has_only_names:
                self._act_on_changes()

    def _wait(self) -> list[bytes] | None:
        """Wait until something has happened; return the lines that the agent has sent, None at its end."""
        watch = None if self._steps is None else self._steps.watch
        with selectors.PollSelector() as selector:
            interest = selectors.EVENT_WRITE if self._agent.has_waiting else 0
            selector.register(self._agent, selectors.EVENT_READ | interest)
            selector.register(self._wakeup, selectors.EVENT_READ)
            if watch is not None and watch.fd >= 0:
                selector.register(watch.fd, selectors.EVENT_READ)
            ready = [key.fd for key, _ in selector.select(self._pause_s())]
        self._has_only_names = watch is not None and ready == [watch.fd]
        self._agent.flush()
        return self._agent.receive()

    def _pause_s(self) -> float | None:
        """Return the seconds until the next look; None if only events wake."""
        pauses = [] if self._steps is None or self._steps.watch is None else [self._steps.watch.pause_s]
        if self._peers is not None:
            pauses.append(self._peers.pause_s)
        if self._departure is not None:
            pauses.append(self._departure.left_s(time.monotonic()))
        return min((pause for pause in pauses if pause is not None), default=None)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _answer(self, number: int, request: Request) -> Answer:
        try:
            return self._act(number, request)
        except ResourcesShortError as error:
            if self._steps is not None:
                raise  # the next keeper begins without open files, and can do it
            return Answer(number, error=str(error))
        except (VolumeError, KeeperError) as error:
            return Answer(number, error=str(error))

    def _act(self, number: int, request: Request) -> Answer:
        if isinstance(request, OpenRequest):
            return self._open(number, request)
        if self._steps is None or self._peers is None:
            raise RequestRefused("the volume is not open")
        return self._act_on(self._steps, self._peers, number, request)

    def _act_on(self, steps: StepKeeper, peers: PeerConnections, number: int, request: Request) -> Answer:
        match request:
            case JoinRequest():
                peers.join(request)
                steps.join(request)
                return Answer(number, run=steps.volume.run, holdings=self._holdings())
            case BeginRequest():
                return self._begin(steps, peers, number, request)
            case SealRequest():
                peers.end_round()
                steps.seal()
                return Answer(number, holdings=self._holdings())
            case RestoreRequest(step):
                return Answer(number, directory=str(steps.restore(step)))
            case StatusRequest():
                return Answer(number, status=replace(steps.status(), copied=peers.copied, received=peers.received))
            case _:
                self._act_silently(steps, peers, request)
                return Answer(number)

    def _act_silently(self, steps: StepKeeper, peers: PeerConnections, request: Request) -> None:
        """Act on a request whose answer has no contents."""
        match request:
            case StartedRequest():
                self._start(steps)
            case PeersRequest():
                peers.set_peers(request)
            case FetchRequest(run=run) if run:
                self._require_persistence().check(request)
            case FetchRequest():
                peers.fetch(request)
            case ListRequest():
                self._require_persistence().list_again(request)
            case DrainRequest():
                self._require_persistence().drain(request)
            case LingerRequest():
                self._departure = DepartureWait(request, now_s=time.monotonic())
            case DropRequest(dropped):
                steps.drop(dropped)
            case EraseRequest():
                peers.end_round()
                steps.erase()

    def _start(self, steps: StepKeeper) -> None:
        steps.start()
        if self._persistence is not None:
            self._persistence.start()

    def _require_persistence(self) -> Persistence:
        if self._persistence is None:
            raise RequestRefused("this keeper persists no steps")
        return self._persistence

    def _begin(self, steps: StepKeeper, peers: PeerConnections, number: int, begun: BeginRequest) -> Answer:
        self._notices_left = _MOST_NOTICES
        self._departure = None
        peers.end_round()
        directory = steps.begin(begun)
        peers.begin(begun)
        return Answer(number, directory=str(directory), holdings=self._holdings())

    def _open(self, number: int, request: OpenRequest) -> Answer:
        if self._steps is not None:
            raise RequestRefused("the volume is open already")
        self._steps = StepKeeper(request, report=self._report, on_change=self._on_change)
        thread = threading.Thread(target=self._empty_trash, args=(self._steps,), name="trash", daemon=True)
        thread.start()
        if request.persist_to:
            self._persistence = Persistence(request, self._steps, report=self._report, send=self._send_soon)
        self._peers = PeerConnections(
            request,
            self._steps,
            self._listener,
            report=self._report,
            wake=self._wake,
            send=self._send_soon,
            persistence=self._persistence,
        )
        return Answer(number, run=self._steps.volume.run, holdings=self._holdings(), port=self._peers.port)

    def _holdings(self) -> dict[str, str]:
        self._has_changed.clear()  # first: another thread may change them meanwhile
        return {} if self._steps is None else encode_holdings(self._steps.volume.holdings())

    # --- what was not asked for --------------------------------------------------------------------------------------

    def _take_new(self) -> bool:
        """Take what is published; return whether there was something."""
        try:
            return self._steps is not None and self._steps.take_new()
        except ResourcesShortError:
            raise
        except VolumeError as error:
            self._report(f"published steps were not taken: {error}")
            return True

    def _act_on_changes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)  # not before: what this thread itself has changed needs no further turn
        self._update_peers()
        self._send_changes()
        self._limit_memory()
        if self._steps is not None and self._steps.volume.trash.has_news:
            self._has_trash.set()

    def _limit_memory(self) -> None:
        """Delete what was dropped if it needs too much; between two rounds nothing is published, and a start waits."""
        if self._steps is not None and self._steps.is_running:
            self._steps.memory.enforce()

    def _update_peers(self) -> None:
        if self._peers is not None:
            self._peers.update()

    def _send_changes(self) -> None:
        while self._notices:  # first: holdings may be the effect of what they explain
            self._agent.send(Note(self._notices.popleft()))
        if self._has_changed.is_set():
            self._agent.send(HoldingsUpdate(self._holdings()))
        self._send_progress()
        while self._unsent:
            self._agent.send(self._unsent.popleft())

    def _send_progress(self) -> None:
        if self._steps is None or self._peers is None:
            return
        if (progress := self._peers.progress()) != self._progress:
            self._progress = progress
            self._agent.send(progress)
        if self._departure is not None:
            held = self._steps.volume.holdings()
            if (result := self._departure.result(held, self._steps.point, now_s=time.monotonic())) is not None:
                self._departure = None
                self._agent.send(result)

    def _send_soon(self, message: FetchResult | DrainResult | PersistUpdate) -> None:
        """Send this to the agent soon; called from any thread."""
        self._unsent.append(message)
        self._wake()

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
            steps.volume.trash.empty()
