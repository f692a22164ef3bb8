"""The fetch of all missing parts of one step, in a few threads; then the links for the workers."""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

from elasticjob_agent.keep.keeper.messages import FetchRequest, FetchResult
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.transfer.cancel_token import CancelToken
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.errors import CancelledTransferError, TransferError, UnreachedError
from elasticjob_agent.keep.transfer.fetch import PartFetch
from elasticjob_agent.keep.volume.errors import ResourcesShortError, VolumeError
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.link_handshake import Address

_MOST_PARTS = 4
"""So many parts are fetched at a time."""
_AGAIN = (UnreachedError, ResourcesShortError)
"""Errors that are no fault of the step: a holder has not answered, or this process lacks descriptors or memory."""


class StepFetch:
    """One fetch; `on_end` gets its result from a thread, unless it was cancelled."""

    def __init__(
        self,
        dialer: KeeperDialer,
        steps: StepKeeper,
        request: FetchRequest,
        sources: Mapping[int, Sequence[Address]],
        *,
        port: int,
        on_end: Callable[[FetchResult], None],
        clock: Callable[[], float],
    ) -> None:
        """Begin at once. `port` is that of the own listener, from which others get the parts afterwards."""
        self._dialer = dialer
        self._steps = steps
        self._request = request
        self._sources = sources
        self._port = port
        self._on_end = on_end
        self._clock = clock
        self._deadline_s = clock() + request.within_s
        self._lock = threading.Lock()
        self._error = ""
        self._is_unreached = False
        """Whether the error is one of `_AGAIN`."""
        self._is_cancelled = False
        self._tokens: list[CancelToken] = []
        self._missing: queue.SimpleQueue[int] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="keep fetch", daemon=True).start()

    def cancel(self) -> None:
        """End it without a result; what has arrived stays. It links nothing afterwards, so this may wait for links."""
        with self._lock:
            self._is_cancelled = True
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        """End all parts; the first error is that of the step."""
        with self._lock:
            if error is not None and not self._error:
                self._error, self._is_unreached = str(error), isinstance(error, _AGAIN)
            tokens = list(self._tokens)
        for token in tokens:
            token.cancel()

    def _run(self) -> None:
        step = self._request.step
        try:
            self._steps.volume.unlink_dropped()  # only links keep these steps, and the missing parts need room
        except VolumeError as error:
            self._end(error)
        held = self._steps.volume.holdings().get(step, frozenset())
        missing = [index for index in range(step.parts) if index not in held]
        for index in missing:
            self._missing.put(index)
        threads = self._start_threads(min(len(missing), _MOST_PARTS))
        if not threads:
            self._fetch_parts()
        for thread in threads:
            thread.join()
        result = self._link()
        with self._lock:
            is_cancelled = self._is_cancelled
        if not is_cancelled:
            self._on_end(result)

    def _start_threads(self, count: int) -> list[threading.Thread]:
        """Return threads that fetch: fewer, or none, if the system has none left."""
        started: list[threading.Thread] = []
        with contextlib.suppress(RuntimeError):
            while len(started) < count:
                thread = threading.Thread(target=self._fetch_parts, daemon=True)
                thread.start()
                started.append(thread)
        return started

    def _link(self) -> FetchResult:
        number = self._request.number
        with self._lock:
            if self._error or self._is_cancelled:
                return FetchResult(number, error=self._error, is_unreached=self._is_unreached)
            try:
                return FetchResult(number, directory=os.fspath(self._steps.restore(self._request.step)))
            except VolumeError as error:
                return FetchResult(number, error=str(error), is_unreached=isinstance(error, _AGAIN))

    def _fetch_parts(self) -> None:
        while not self._error and not self._is_cancelled:
            try:
                index = self._missing.get_nowait()
            except queue.Empty:
                return
            self._fetch_part(KeptPart(self._request.step, index))

    def _fetch_part(self, part: KeptPart) -> None:
        token = CancelToken()
        with self._lock:
            self._tokens.append(token)
            if self._error or self._is_cancelled:
                return
        holders = self._sources.get(part.index, ())
        fetch = PartFetch(self._dialer, self._steps.volume, part, holders, port=self._port, token=token)
        try:
            fetch.run(within_s=self._deadline_s - self._clock())
        except CancelledTransferError:
            return
        except (TransferError, VolumeError) as error:
            self._end(error)
