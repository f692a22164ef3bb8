"""The agent's client of its keeper: the process, the socket to it, and what it last reported.

The keeper may end or hang at any time, and training and rounds do not wait for it. A keeper that has ended is replaced;
one that hangs is killed first. The next one scans the volume and gets the round again.
`seal` waits only for a keeper that works, and has a limit. At the limit the last known holdings are used, and that is
counted.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.keep.keeper.errors import (
    HolderUnreachedError,
    KeeperError,
    KeeperSilentError,
    RequestRefused,
    StepRefused,
)
from elasticjob_agent.keep.keeper.fetch_sources import encode_sources
from elasticjob_agent.keep.keeper.messages import (
    Answer,
    BeginRequest,
    DropRequest,
    EraseRequest,
    FetchRequest,
    FetchResult,
    HoldingsUpdate,
    JoinRequest,
    KeeperStatus,
    LingerRequest,
    LingerResult,
    Message,
    Note,
    OpenRequest,
    PeersRequest,
    ProgressUpdate,
    Request,
    RestoreRequest,
    SealRequest,
    StartedRequest,
    StatusRequest,
    decode_holdings,
)
from elasticjob_agent.keep.keeper.persist_messages import (
    DrainRequest,
    DrainResult,
    ListRequest,
    PersistUpdate,
    decode_persisted,
)
from elasticjob_agent.keep.keeper_connection import ANSWER_S, START_S, KeeperConnection
from elasticjob_agent.keep.replayed_requests import ReplayedRequests, TimedRequest
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import Holdings, KeptStep, PersistedStep

logger = logging.getLogger(__name__)

LONGEST_SEAL_S = 5.0
"""Seconds that a round waits at most for the last published parts to be taken.

It takes some milliseconds. A keeper that works on a busy machine may need seconds. One that hangs is replaced after
50 ms, and the next one takes what was published.
"""
_END_S = 5.0
_ERASE_S = 60.0  # to delete a hundred GiB takes ten of them, and more on a busy machine
_HEARD_S = 1.0
"""Seconds after its last message in which a keeper needs not show that it works: a round has many reports."""
_CHECK_S = 5.0
"""Seconds between looks whether a keeper that fetches hangs."""


class KeeperClient(KeeperConnection):
    """The client of the keeper of one agent. All methods belong to one event loop."""

    def __init__(
        self,
        volume: OpenRequest,
        *,
        on_holdings: Callable[[Holdings], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
        on_progress: Callable[[ProgressUpdate], None] = lambda _: None,
        on_persist: Callable[[PersistUpdate], None] = lambda _: None,
        first_pause_s: float = 0.05,
        last_pause_s: float = 5.0,
    ) -> None:
        """`on_holdings` is called when the holdings or the port have changed, `on_notice` with a sentence for users.

        `first_pause_s` is the pause before a keeper is replaced. It doubles with each, up to `last_pause_s`.
        """
        super().__init__(volume.host, first_pause_s=first_pause_s, last_pause_s=last_pause_s)
        self.holdings: Holdings = {}
        """The last known holdings."""
        self.run = ""
        """The run that they belong to; empty if none is known."""
        self.port = 0
        """Where peers reach the keeper; 0 if it does not listen."""
        self.progress = ProgressUpdate()
        """How far copying and committing are, as the keeper reported last."""
        self.refused = ""
        """Why the last keeper has not opened the volume; empty if it has."""
        self.persist = PersistUpdate()
        """The knowledge of the shared directory, as the keeper reported last."""
        self.missed_seals = 0
        """How many rounds used the last known holdings because the keeper did not answer in time."""
        self._replayed = ReplayedRequests(volume)
        self._on_holdings = on_holdings
        self._on_notice = on_notice
        self._on_progress = on_progress
        self._on_persist = on_persist
        self._fetches = 0
        self._fetched: asyncio.Future[FetchResult] = self._loop.create_future()
        self._lingered: asyncio.Future[LingerResult] = self._loop.create_future()
        self._listed = asyncio.Event()
        self._drained: asyncio.Future[DrainResult] = self._loop.create_future()

    # --- for the agent -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the keeper; return when it has opened and scanned the volume, or when another one has to be started.

        A keeper that ends or hangs at its start, or cannot use the volume, is replaced, as later in its life.
        """
        try:
            await self._answered(self._connect(), START_S)
        except RequestRefused:
            return
        except KeeperError as error:
            logger.warning("%s; the agent tries again", error)
            if self._socket is None and self._restart is None:
                self._connect_later()

    async def begin_round(self, begun: BeginRequest) -> Path:
        """Return the directory in which the workers of this round publish.

        The workers of the round before are reaped.

        Raises:
            RequestRefused: the directory cannot be made.
            KeeperSilentError: no keeper has answered in time.
        """
        self._replayed.begin(begun)
        self._end_fetch()
        return Path((await self._ask_again(begun)).directory)

    async def join(self, joined: JoinRequest) -> Holdings:
        """Return the holdings as this member of this run; raise RequestRefused or KeeperSilentError."""
        self._replayed.joined, self._replayed.fetch = joined, None
        self._end_fetch()
        await self._ask_again(joined)
        return self.holdings

    def set_peers(self, peers: PeersRequest) -> None:
        """Let the keeper know the members of the round that was begun."""
        self._replayed.peers = peers
        self._notify(peers)

    def report_start(self) -> None:
        """Let the keeper know that the workers of the round have started; from now on it may drop steps."""
        self._replayed.has_started = True
        self._notify(StartedRequest())

    async def seal(self) -> Holdings:
        """Take what the reaped workers have published; return the holdings, or the last known ones at the limit.

        A keeper that is being replaced gets the request, too: the next one takes what it finds.
        """
        self._replayed.seal()
        self._end_fetch()
        try:
            await self._ask_soon(SealRequest(), LONGEST_SEAL_S)
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

    async def fetch(
        self, step: KeptStep, sources: Mapping[int, Sequence[Address]], within_s: float, *, run: str = ""
    ) -> Path:
        """Return a directory with the files of all parts of this step, after fetching those that are not here.

        `sources` has the keepers that hold each part. With `run`, the step is in the shared directory, and is only
        checked. `seal`, `join`, `begin_round` and another fetch end it.

        Raises:
            RequestRefused: a part cannot be fetched or linked, or it was ended; the message has the reason.
            StepRefused: the step is not in the shared directory, or may not be used.
            HolderUnreachedError: a node that may have a part has not answered.
            KeeperSilentError: no keeper has answered in time.
        """
        self._end_fetch()
        self._fetches += 1
        request = FetchRequest(step, encode_sources(sources), within_s, self._fetches, run)
        self._replayed.fetch = TimedRequest(request, self._loop.time() + within_s)
        self._fetched = fetched = self._loop.create_future()
        self._notify(request)
        try:
            async with asyncio.timeout(within_s + ANSWER_S):
                while not (await asyncio.wait({fetched}, timeout=_CHECK_S))[0]:
                    self.check()
                result = fetched.result()
        except TimeoutError:
            raise KeeperSilentError(f"no keeper has fetched step {step} within {within_s:g} s") from None
        if result.error:
            raise _fetch_error(result)
        return Path(result.directory)

    def _end_fetch(self) -> None:
        if not self._fetched.done():
            self._fetched.set_exception(RequestRefused("the fetch was ended by another request"))
            self._fetched.exception()  # it may be that no one waits for it

    def persisted_steps(self) -> dict[PersistedStep, int]:
        """Return the whole steps of the shared directory that are known, each with the time (ns) of its directory."""
        return decode_persisted(self.persist.steps)

    async def wait_listed(self, within_s: float) -> bool:
        """Return whether the shared directory was listed, when that is so or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._listed.wait()
        return self._listed.is_set() and self.persist.is_listed

    def list_again(self, number: int) -> None:
        """Let the shared directory be listed; `persist` has this number when that has been done."""
        self._replayed.listed = ListRequest(number)
        self._notify(self._replayed.listed)

    async def drain(self, step: KeptStep, indices: Sequence[int], within_s: float) -> None:
        """Write these parts to the shared directory; a keeper that replaces this one goes on.

        Raises:
            RequestRefused: they could not be written.
            KeeperSilentError: they were not written in time.
        """
        self._fetches += 1
        self._drained = drained = self._loop.create_future()
        self._replayed.drain = DrainRequest(step, tuple(indices), self._fetches)
        self._notify(self._replayed.drain)
        try:
            async with asyncio.timeout(within_s):
                result = await drained
        except TimeoutError:
            raise KeeperSilentError(f"step {step.number} was not written within {within_s:.0f} s") from None
        finally:
            self._replayed.drain = None
        if result.error:
            raise RequestRefused(result.error)

    async def linger(self, request: LingerRequest) -> bool:
        """Return whether no other node needs what is here, when that is so or the time is over.

        A further call replaces the request; the results of both are the same.
        """
        self._replayed.linger = TimedRequest(request, self._loop.time() + request.within_s)
        if self._lingered.done():
            self._lingered = self._loop.create_future()
        self._notify(request)
        try:
            # Each call has its own limit, so the shared result stays for the others.
            async with asyncio.timeout(request.within_s + ANSWER_S):
                return (await asyncio.shield(self._lingered)).is_drained
        except TimeoutError:
            return False

    async def drop(self, steps: tuple[KeptStep, ...]) -> None:
        """Drop these steps; raise RequestRefused or KeeperSilentError."""
        await self._ask_again(DropRequest(steps))

    def check(self) -> None:
        """Let a silent keeper show that it does not hang; one that does is killed after ten seconds, and replaced."""
        if not self._is_closed and self._loop.time() - self._heard_s > _HEARD_S:
            self._notify(StatusRequest())

    async def status(self) -> KeeperStatus:
        """Return the counts of the keeper; raise a KeeperError."""
        return (await self._answered(self._request(StatusRequest()), ANSWER_S)).status or KeeperStatus()

    async def close(self, *, erase: bool = False) -> None:
        """End the keeper and reap it; with `erase`, delete the volume first. Bounded; may be called again."""
        if self._restart is not None:
            self._restart.cancel()
        erase, self._is_closed = erase and not self._is_closed, True
        if erase:
            await self._erase()
        self._stop_listening()
        if self._socket is None:
            return
        self._socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._ended.wait()
        self._kill()
        await self._ended.wait()

    async def _erase(self) -> None:
        with contextlib.suppress(KeeperError):
            if self._socket is None:
                self._connect()
            pending = self._request(EraseRequest())
            pending.deadline.cancel()  # that of an answer which takes milliseconds
            await self._answered_while_working(pending, self._loop.time() + _ERASE_S)

    # --- what the keeper sends ---------------------------------------------------------------------------------------

    def _first_requests(self, trouble: str) -> Iterable[Request]:
        yield replace(self._replayed.opened, trouble=trouble)
        yield from self._replayed.in_order(self._loop.time())

    def _on_opened(self, error: str) -> None:
        if error == self.refused:
            return
        self.refused = error
        if error:
            self._on_notice(f"steps are not kept at present: {error}")
        self._on_progress(self.progress)

    def _on_early_end(self, why: str) -> None:
        if not self.refused:
            self.refused = why
            self._on_progress(self.progress)

    def _on_event(self, message: Message) -> None:
        match message:
            case Answer():
                self._accept_answer(message)
            case HoldingsUpdate(holdings):
                self._accept(decode_holdings(holdings))
            case ProgressUpdate():
                self.progress = message
                self._on_progress(message)
            case FetchResult():
                self._accept_fetch(message)
            case LingerResult():
                self._replayed.linger = None
                if not self._lingered.done():
                    self._lingered.set_result(message)
            case Note(text):
                self._on_notice(text)
            case PersistUpdate() | DrainResult():
                self._on_persist_event(message)

    def _accept_answer(self, answer: Answer) -> None:
        if answer.holdings is not None:
            self._accept(decode_holdings(answer.holdings))
        self.run = answer.run or self.run
        self._accept_port(answer.port)

    def _on_persist_event(self, message: PersistUpdate | DrainResult) -> None:
        if isinstance(message, DrainResult):
            if message.number == self._fetches and not self._drained.done():
                self._drained.set_result(message)
            return
        known = self.persist
        if message.is_listed:
            # A script that counts anew in a later round removes the step that the operator has named.
            self._replayed.note_listed(step.step.number for step in decode_persisted(message.steps))
        elif known.is_listed:
            # It is of a keeper that replaces another one, whose list still counts.
            message = replace(message, is_listed=True, list_number=known.list_number, steps=known.steps)
        self.persist = message
        if message.is_listed or message.error:
            self._listed.set()
        self._on_persist(message)

    def _accept_fetch(self, result: FetchResult) -> None:
        if result.number == self._fetches and not self._fetched.done():
            self._replayed.fetch = None
            self._fetched.set_result(result)

    def _accept_port(self, port: int) -> None:
        """Report another port as other holdings: the record of the node has both."""
        if port and port != self.port:
            self.port = port
            self._on_holdings(self.holdings)

    def _accept(self, holdings: Holdings) -> None:
        if holdings != self.holdings:
            self.holdings = holdings
            self._on_holdings(holdings)


def _fetch_error(result: FetchResult) -> RequestRefused:
    """Return the error of a fetch that has ended with one."""
    if result.is_unreached:
        return HolderUnreachedError(result.error)
    return (StepRefused if result.is_of_step else RequestRefused)(result.error)
