"""Nodes with a volume in memory and a listener, as keepers have them, in the process of the test."""

import itertools
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.transfer.cancel_token import CancelToken
from elasticjob_agent.keep.transfer.commit_member import CommitMember
from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.dialer import KeeperDialer, put_part
from elasticjob_agent.keep.transfer.fetch import PartFetch
from elasticjob_agent.keep.transfer.frames import Bad, Dead, Full, Have, Later, Offer
from elasticjob_agent.keep.transfer.handshake import KeeperIdentity, Purpose
from elasticjob_agent.keep.transfer.listener import open_listener
from elasticjob_agent.keep.transfer.server import TransferServer
from elasticjob_agent.keep.transfer.serving import PartHolder, PartReceiver
from elasticjob_agent.keep.transfer.session import KeeperCredentials
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member

HOST = "127.0.0.1"
JOB = "/elasticjob/c/n/j/u/"
RUN = "0000000f"
SECRET = b"s" * 32
LINEAGE = Lineage(7, "00000abc")
STEP = KeptStep(LINEAGE, 120, 1)
PART = KeptPart(STEP, 0)
UNLIMITED = Throttle()
_slots = itertools.count(1)

Answer = Have | Bad | Later | Full | Dead


@dataclass(eq=False)
class Node:
    """One node; `refusal` is what its policy answers to offers."""

    root: Path
    run: str = RUN
    secret: bytes = SECRET
    tls: TlsContexts | None = None
    stall_s: float = 5.0
    size_limit: int | None = None
    refusal: Later | Full | Dead | None = None
    reports: list[str] = field(default_factory=list)
    points: list[SafePoint] = field(default_factory=list)
    """The points that leaders' keepers have sent."""

    def __post_init__(self) -> None:
        """Open the volume and listen."""
        self.member = Member(next(_slots), "0000000a")
        self.volume = Volume(self.root, job=JOB, run=self.run, size_limit=self.size_limit, report=self.reports.append)
        self.holder = PartHolder(self.volume)
        self.receiver = PartReceiver(self.volume, self._decide)
        self.commit = CommitMember(self.points.append)
        handlers: Mapping[Purpose, Callable[..., None]] = {
            Purpose.GET: self.holder.serve,
            Purpose.PUT: self.receiver.serve,
            Purpose.COMMIT: self.commit.serve,
        }
        self.server = TransferServer(HOST, open_listener(HOST), self.credentials, handlers, stall_s=self.stall_s)
        self.server.open()
        self.dialer = KeeperDialer(self.credentials, stall_s=self.stall_s)

    def _decide(self, _offer: Offer, _origin: Member) -> Later | Full | Dead | None:
        return self.refusal

    def credentials(self) -> KeeperCredentials:
        """Return what this node proves its identity with."""
        return KeeperCredentials(KeeperIdentity(JOB, self.run, self.member), self.secret, self.tls)

    @property
    def address(self) -> Address:
        """The address of its listener."""
        return self.server.address

    def publish(self, files: Mapping[str, bytes | int], part: KeptPart = PART) -> None:
        """Publish a part with these contents, or with so many random bytes."""
        step = part.step
        name = f"step-{step.number}" if step.parts == 1 else f"step-{step.number}.{part.index}-of-{step.parts}"
        directory = self.volume.begin_round(step.lineage) / name
        for file, contents in files.items():
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(contents) if isinstance(contents, int) else contents)
        assert self.volume.take(name, part), self.reports

    def files(self, part: KeptPart = PART) -> dict[str, bytes]:
        """Return the contents of a held part."""
        held = self.volume.open_part(part.step, part.index)
        return {name: (held.path / name).read_bytes() for name, _ in held.files}

    def has(self, part: KeptPart = PART) -> bool:
        """Return whether the part is held here."""
        return part.index in self.volume.holdings().get(part.step, ())

    def put(self, address: Address, part: KeptPart = PART, *, throttle: Throttle = UNLIMITED) -> Answer:
        """Put the part to another node."""
        return put_part(
            self.dialer, self.volume, part, address, lineage=LINEAGE, throttle=throttle, token=CancelToken()
        )

    def fetch(
        self, *holders: Address, part: KeptPart = PART, token: CancelToken | None = None, within_s: float = 60.0
    ) -> None:
        """Fetch the part from the first holder that has it."""
        token = token or CancelToken()
        fetch = PartFetch(self.dialer, self.volume, part, holders, port=self.address.port, token=token)
        fetch.run(within_s=within_s)

    def close(self) -> None:
        """Stop listening, and delete the volume."""
        self.server.close()
        self.volume.erase()
        self.volume.close()


class Background:
    """A function in a thread; `result` waits for its value, or raises its error."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._value: object = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # noqa: BLE001 -- the test gets it
            self._error = error

    def result(self) -> object:
        """Return the value of the function."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value
