"""One part that this keeper fetches from the peers that hold it, one after the other, until it is whole."""

import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable

from elasticjob_agent.keep.transfer.cancel_token import CancelToken
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.errors import HandshakeError, NoSourceError, TransferError, UnreachedError
from elasticjob_agent.keep.transfer.fetch_order import FetchOrder
from elasticjob_agent.keep.transfer.frames import Bad, Busy, Get, Have, NoPart, Offer
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.receiver import receive_part
from elasticjob_agent.keep.transfer.serving import is_held
from elasticjob_agent.keep.transfer.session import Session, unexpected
from elasticjob_agent.keep.volume.errors import PartExists, VolumeFullError
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.receipt import Receipt
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_agent.rendezvous.protocol.link_handshake import Address

_PAUSE_S = 0.2
"""Seconds between two looks at a part that another transfer receives."""

_NAMED = 3

log = logging.getLogger(__name__)


class PartFetch:
    """The fetch of one part; `run` blocks its thread, `token` ends it."""

    def __init__(
        self,
        dialer: KeeperDialer,
        volume: Volume,
        part: KeptPart,
        holders: Iterable[Address],
        *,
        port: int,
        token: CancelToken,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`port` is that of the own listener, from which other fetchers can get the part afterwards."""
        self._dialer = dialer
        self._volume = volume
        self._part = part
        self._order = FetchOrder(holders, random=random)
        self._port = port
        self._token = token
        self._clock = clock
        self._received = 0
        """Bytes of the receipt when it was last closed."""
        self._unreached: set[Address] = set()
        """The holders that did not answer when they were asked last."""
        self._asked_without_room: set[Address] = set()
        """The holders whose part had no room before what was dropped was deleted."""
        self._lack_of_room: VolumeFullError | None = None
        """Why the part of the last holder did not fit. Its sizes may be false, so the others are asked, too."""

    def run(self, *, within_s: float) -> None:
        """Return when the part is held.

        Raises:
            UnreachedError: a holder that may have it has not answered, or could not be asked.
            NoSourceError: no known holder could send it within `within_s` seconds.
            CancelledTransferError: it was cancelled.
            VolumeError: it cannot be written, for example for want of room.
        """
        deadline_s = self._clock() + within_s
        timer = threading.Timer(within_s, self._token.end_connection)  # a slow holder makes progress
        try:
            timer.start()
        except RuntimeError as error:
            raise UnreachedError(
                f"no holder was asked for part {self._part}: the node has no thread left; raise its limit of processes"
            ) from error
        try:
            while not is_held(self._volume, self._part):
                self._ask_next(deadline_s)
        finally:
            timer.cancel()

    def _ask_next(self, deadline_s: float) -> None:
        source = self._order.next_source(now_s=self._clock())
        if source is None:
            if self._lack_of_room is not None:
                raise self._lack_of_room
            reason = f"no holder could send part {self._part}: each has failed"
            if self._unreached:
                raise UnreachedError(f"{reason}; {_names(self._unreached)} may still have it")
            raise NoSourceError(reason)
        if self._clock() + source.wait_s >= deadline_s:
            raise NoSourceError(f"no holder could send part {self._part} in time")
        self._token.wait(source.wait_s)
        self._ask(source.address)

    def _ask(self, address: Address) -> None:
        received = self._received
        try:
            answer = self._fetch_from(address)
        except PartExists:
            self._token.wait(_PAUSE_S)  # another transfer receives it
        except VolumeFullError as error:
            self._note_lack_of_room(address, error)
        except HandshakeError as error:
            log.warning("no part is fetched from %s: %s", address, error)
            self._order.note_useless(address)
        except TransferError as error:
            self._token.check()
            log.debug("the fetch of part %s from %s failed: %s", self._part, address, error)
            self._unreached.add(address)
            self._order.note_failure(address, progressed=self._received > received, now_s=self._clock())
        else:
            self._unreached.discard(address)
            self._note(address, answer)

    def _note_lack_of_room(self, address: Address, error: VolumeFullError) -> None:
        """Let the holder be asked once more when all that was dropped is deleted."""
        if address in self._asked_without_room:
            self._lack_of_room = error
            self._order.note_useless(address)
            return
        self._asked_without_room.add(address)
        self._volume.trash.delete_some(sys.maxsize)  # the thread that deletes has a low priority
        self._volume.trash.empty()  # it may still be at the last of it

    def _note(self, address: Address, answer: Have | Bad | Busy | NoPart) -> None:
        match answer:
            case Busy(addresses):
                self._order.note_busy(address, addresses, now_s=self._clock())
            case NoPart():
                self._order.note_useless(address)
            case Bad(files):
                log.warning("%d files of part %s arrived damaged from %s", len(files), self._part, address)
                self._order.note_failure(address, progressed=False, now_s=self._clock())

    def _fetch_from(self, address: Address) -> Have | Bad | Busy | NoPart:
        with self._dialer.open(address, Purpose.GET, self._token) as session:
            session.send(Get(self._part, self._port))
            match session.receive():
                case Offer(part, files) if part == self._part:
                    return self._receive(session, self._volume.receive_part(part.step, part.index, files))
                case Busy() | NoPart() as answer:
                    return answer
                case message:
                    raise unexpected(message)

    def _receive(self, session: Session, receipt: Receipt) -> Have | Bad:
        try:
            return receive_part(session, receipt)
        finally:
            self._received = sum(receipt.offsets)
            receipt.close()


def _names(addresses: Iterable[Address]) -> str:
    """Return the first few of these addresses, as a list for people."""
    names = sorted(map(str, addresses))
    return ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "")
