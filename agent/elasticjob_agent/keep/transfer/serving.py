"""The answers of a keeper to peers that put a part here, and to peers that fetch one.

A holder serves four fetchers at once. Each further one gets the addresses of keepers that have just got the part from
here. So the copies of one part spread over the fetchers by themselves.
"""

import threading
from collections import deque
from collections.abc import Callable

from elasticjob_agent.keep.transfer.errors import ConnectionEndedError
from elasticjob_agent.keep.transfer.frames import (
    MAX_ADDRESSES,
    Busy,
    Dead,
    Full,
    Get,
    Have,
    Later,
    NoPart,
    Offer,
)
from elasticjob_agent.keep.transfer.receiver import receive_part
from elasticjob_agent.keep.transfer.sender import offer_part
from elasticjob_agent.keep.transfer.session import Session, unexpected
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.keep.volume.errors import PartChangedError, PartExists, PartMissing, VolumeFullError
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.receipt import Receipt
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.rendezvous_state import Member

MAX_FETCHES = 4
MAX_RECEIPTS = 8
_REMEMBERED_PARTS = 256
_LATER_S = 1.0

OfferPolicy = Callable[[Offer, Member], Later | Full | Dead | None]
"""Return why this keeper does not take a part that this member offers; None if it takes it."""


class PartReceiver:
    """Serves peers that put a part into the volume."""

    def __init__(
        self, volume: Volume, policy: OfferPolicy, *, on_received: Callable[[KeptPart], None] = lambda _: None
    ) -> None:
        """`on_received` is called when a part that a peer has put here is held."""
        self._volume = volume
        self._policy = policy
        self._on_received = on_received
        self._slots = threading.Semaphore(MAX_RECEIPTS)

    def serve(self, session: Session) -> None:
        """Answer one offer and receive the part, if this keeper takes it."""
        offer = session.receive()
        check_run(session, self._volume)
        if not isinstance(offer, Offer):
            raise unexpected(offer)
        if not self._slots.acquire(blocking=False):
            session.send(Later(_LATER_S))
            return
        try:
            self._serve_offer(session, offer)
        finally:
            self._slots.release()

    def _serve_offer(self, session: Session, offer: Offer) -> None:
        found = self._decide(offer, session.peer.identity.member)
        if not isinstance(found, Receipt):
            session.send(found)
            return
        try:
            answer = receive_part(session, found)
        finally:
            found.close()
        if isinstance(answer, Have):
            self._on_received(offer.part)
        if isinstance(self._policy(offer, session.peer.identity.member), Dead):  # the step died meanwhile
            self._volume.drop([offer.part])

    def _decide(self, offer: Offer, origin: Member) -> Have | Later | Full | Dead | Receipt:
        part = offer.part
        if is_held(self._volume, part):
            refusal = self._policy(offer, origin)
            return refusal if isinstance(refusal, Dead) else Have()
        if refusal := self._policy(offer, origin):
            return refusal
        try:
            return self._volume.receive_part(part.step, part.index, offer.files)
        except PartExists:
            return Have() if is_held(self._volume, part) else Later(_LATER_S)
        except VolumeFullError:
            return Full()


class PartHolder:
    """Serves peers that fetch a part of the volume."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._lock = threading.Lock()
        self._active = 0
        self._served: dict[KeptPart, deque[Address]] = {}
        self._unlimited = Throttle()

    @property
    def is_serving(self) -> bool:
        """Whether a fetch is in progress."""
        return self._active > 0

    def serve(self, session: Session) -> None:
        """Answer one request, and send the part."""
        request = session.receive()
        check_run(session, self._volume)
        if not isinstance(request, Get):
            raise unexpected(request)
        if not is_held(self._volume, request.part):
            session.send(NoPart())
        elif not self._begin():
            session.send(Busy(self._served_addresses(request.part)))
        else:
            try:
                self._send(session, request)
            finally:
                self._end()

    def _send(self, session: Session, request: Get) -> None:
        part, host = request.part, session.connection.peer_host  # now: the peer may end the connection after its answer
        try:
            held = self._volume.open_part(part.step, part.index)
            result = offer_part(session, held, self._unlimited)
        except PartMissing:
            session.send(NoPart())
            return
        except PartChangedError as error:
            self._volume.withdraw(part, str(error))
            return
        if isinstance(result.answer, Have):
            if request.port:
                self._note_served(part, Address(host, request.port))
            if result.crcs is not None:
                self._volume.confirm(held, result.crcs)

    def _begin(self) -> bool:
        with self._lock:
            is_free = self._active < MAX_FETCHES
            self._active += is_free
        return is_free

    def _end(self) -> None:
        with self._lock:
            self._active -= 1

    def _served_addresses(self, part: KeptPart) -> tuple[Address, ...]:
        with self._lock:
            return tuple(self._served.get(part, ()))

    def _note_served(self, part: KeptPart, address: Address) -> None:
        with self._lock:
            served = self._served.setdefault(part, deque(maxlen=MAX_ADDRESSES))
            if address not in served:
                served.append(address)
            while len(self._served) > _REMEMBERED_PARTS:
                del self._served[next(iter(self._served))]


def is_held(volume: Volume, part: KeptPart) -> bool:
    """Return whether the volume has this part whole."""
    return part.index in volume.holdings().get(part.step, ())


def check_run(session: Session, volume: Volume) -> None:
    """Raise ConnectionEndedError if the volume belongs to another run than the session."""
    if session.peer.identity.run != volume.run:
        raise ConnectionEndedError("this volume belongs to another run now")
