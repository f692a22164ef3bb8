"""A session with a keeper, for a test that plays its peer."""

import contextlib
from collections.abc import Callable, Iterator

from elasticjob_agent.keep.transfer.dialer import random_hex
from elasticjob_agent.keep.transfer.handshake import (
    KeeperIdentity,
    Purpose,
)
from elasticjob_agent.keep.transfer.session import KeeperCredentials, Session, connect, dial
from elasticjob_api.rendezvous_state import Member
from tests.integration.keep.transfer.nodes import JOB, RUN, SECRET, Node

Start = Callable[..., Node]
IDENTITY = KeeperIdentity(JOB, RUN, Member(99, "0000000b"))
CREDENTIALS = KeeperCredentials(IDENTITY, SECRET)


@contextlib.contextmanager
def session_with(node: Node, purpose: Purpose, credentials: KeeperCredentials = CREDENTIALS) -> Iterator[Session]:
    """A session with a keeper, on which the test sends what it likes."""
    connection = connect(node.address, stall_s=30.0)
    try:
        yield dial(connection, credentials, purpose, random_hex=random_hex)
    finally:
        connection.close()
