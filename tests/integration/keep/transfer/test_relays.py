"""A pod of another job between two keepers, with a certificate of the same authority, reads and changes nothing."""

from collections.abc import Callable, Iterator

import pytest

from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.errors import TransferError
from elasticjob_operator.tls.ca import CertificateAuthority
from tests.integration.keep.transfer.conftest import contexts
from tests.integration.keep.transfer.nodes import Node
from tests.integration.keep.transfer.peer_session import Start
from tests.integration.keep.transfer.tls_relay import TlsRelay

WEIGHTS, FORGED = b"weights of job B", b"chosen by job A!"


@pytest.fixture
def jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsContexts, TlsContexts]:
    """Return the certificates of two jobs of one release."""
    authority = CertificateAuthority.create(now_s=1.7e9)
    mine, other = (contexts(tmp_path_factory.mktemp(job), authority, job=job) for job in ("mine", "other"))
    return mine, other


@pytest.fixture
def relayed(jobs: tuple[TlsContexts, TlsContexts]) -> Iterator[Callable[[Node], TlsRelay]]:
    """Return a function that puts the other job between this node and its peers."""
    relays: list[TlsRelay] = []

    def begin(target: Node) -> TlsRelay:
        relays.append(TlsRelay(target.address, jobs[1], lambda data: data.replace(WEIGHTS, FORGED)))
        return relays[-1]

    yield begin
    for each in relays:
        each.close()


def test_a_part_that_is_put_reaches_no_peer_behind_another_job(
    node: Start, jobs: tuple[TlsContexts, TlsContexts], relayed: Callable[[Node], TlsRelay]
) -> None:
    origin, peer = node(tls=jobs[0]), node(tls=jobs[0])
    origin.publish({"state": WEIGHTS})
    relay = relayed(peer)
    with pytest.raises(TransferError):
        origin.put(relay.address)
    assert not peer.has()
    assert WEIGHTS not in relay.read


def test_a_part_is_not_fetched_through_another_job(
    node: Start, jobs: tuple[TlsContexts, TlsContexts], relayed: Callable[[Node], TlsRelay]
) -> None:
    holder, fetcher = node(tls=jobs[0]), node(tls=jobs[0])
    holder.publish({"state": WEIGHTS})
    relay = relayed(holder)
    with pytest.raises(TransferError, match="each has failed"):
        fetcher.fetch(relay.address)
    assert not fetcher.has()
    assert WEIGHTS not in relay.read
