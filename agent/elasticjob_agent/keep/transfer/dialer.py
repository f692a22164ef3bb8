"""Sessions that this keeper begins, and a part that it puts to a peer."""

import contextlib
import secrets
from collections.abc import Callable, Iterator

from elasticjob_agent.keep.transfer.cancel_token import CancelToken
from elasticjob_agent.keep.transfer.connection import STALL_S
from elasticjob_agent.keep.transfer.frames import Bad, Dead, Full, Have, Later
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.sender import OnSent, offer_part
from elasticjob_agent.keep.transfer.session import KeeperCredentials, Session, connect, dial
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.keep.volume.errors import PartChangedError
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import Lineage


def random_hex() -> str:
    """Return eight random hex digits."""
    return secrets.token_hex(4)


class KeeperDialer:
    """Opens sessions to other keepers."""

    def __init__(
        self,
        credentials: Callable[[], KeeperCredentials],
        *,
        random_hex: Callable[[], str] = random_hex,
        stall_s: float = STALL_S,
    ) -> None:
        """`credentials` returns those of now; a connection without progress for `stall_s` seconds has failed."""
        self._credentials = credentials
        self._random_hex = random_hex
        self._stall_s = stall_s

    @contextlib.contextmanager
    def open(self, address: Address, purpose: Purpose, token: CancelToken) -> Iterator[Session]:
        """Return a session, which is closed at the end of the block; `token` can end it at any time.

        Raises:
            CancelledTransferError: it was cancelled.
            TransferError: there is no such session.
        """
        token.check()
        connection = connect(address, stall_s=self._stall_s)
        with token.owns(connection):
            yield dial(connection, self._credentials(), purpose, random_hex=self._random_hex)

    def dial(self, address: Address, purpose: Purpose) -> Session:
        """Return a session, which the caller closes; raise TransferError."""
        connection = connect(address, stall_s=self._stall_s)
        try:
            return dial(connection, self._credentials(), purpose, random_hex=self._random_hex)
        except BaseException:
            connection.close()
            raise


def put_part(
    dialer: KeeperDialer,
    volume: Volume,
    part: KeptPart,
    address: Address,
    *,
    lineage: Lineage,
    throttle: Throttle,
    token: CancelToken,
    on_sent: OnSent = lambda _kept, _sent: None,
) -> Have | Bad | Later | Full | Dead:
    """Copy a held part to the keeper at `address`, and return its answer; a part that was changed is withdrawn.

    `lineage` is the round whose workers this node runs.

    Raises:
        CancelledTransferError: it was cancelled.
        TransferError: the transfer failed, and can be tried again.
        VolumeError: the part is not held any more, or it was withdrawn.
    """
    held = volume.open_part(part.step, part.index)
    try:
        with dialer.open(address, Purpose.PUT, token) as session:
            result = offer_part(session, held, throttle, lineage=lineage, on_sent=on_sent)
    except PartChangedError as error:
        volume.withdraw(part, str(error))
        raise
    if result.crcs is not None:
        volume.confirm(held, result.crcs)
    return result.answer
