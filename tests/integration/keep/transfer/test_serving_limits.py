"""How many peers a keeper serves at once, and how a part reaches many."""

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from elasticjob_agent.keep.transfer import frames
from elasticjob_agent.keep.transfer.errors import TransferError
from elasticjob_agent.keep.transfer.frames import Busy, Get, NoPart, Offer, Want
from elasticjob_agent.keep.transfer.handshake import (
    Purpose,
)
from elasticjob_agent.keep.transfer.serving import MAX_FETCHES, MAX_RECEIPTS
from elasticjob_agent.keep.transfer.session import Session
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import KeptStep
from testing.waiting import eventually
from tests.integration.keep.transfer.nodes import LINEAGE, PART, Background, Node
from tests.integration.keep.transfer.peer_session import Start, session_with


def test_a_part_that_is_not_held_is_not_served(node: Start) -> None:
    with session_with(node(), Purpose.GET) as session:
        session.send(Get(KeptPart(KeptStep(LINEAGE, 1, 1), 0)))
        assert session.receive() == NoPart()


def test_a_holder_serves_few_fetchers_at_once(node: Start) -> None:
    keeper, fetcher = node(), node()
    keeper.publish({"a": b"data"})
    fetcher.fetch(keeper.address)
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_FETCHES):
            session = stack.enter_context(session_with(keeper, Purpose.GET))
            session.send(Get(PART))
            assert isinstance(session.receive(), Offer)
        assert keeper.holder.is_serving
        one_more = stack.enter_context(session_with(keeper, Purpose.GET))
        one_more.send(Get(PART))
        assert one_more.receive() == Busy((fetcher.address,))
    eventually(lambda: not keeper.holder.is_serving, what="the places of fetchers that left are free")


def test_a_keeper_receives_few_parts_at_once(node: Start) -> None:
    keeper = node()
    with contextlib.ExitStack() as stack:
        for number in range(MAX_RECEIPTS):
            session = stack.enter_context(session_with(keeper, Purpose.PUT))
            session.send(Offer(KeptPart(KeptStep(LINEAGE, number, 1), 0), (("a", 4),)))
            assert isinstance(session.receive(), Want)
        one_more = stack.enter_context(session_with(keeper, Purpose.PUT))
        one_more.send(Offer(KeptPart(KeptStep(LINEAGE, 99, 1), 0), (("a", 4),)))
        assert isinstance(one_more.receive(), frames.Later)


def test_a_part_that_another_peer_is_sending_is_offered_again_later(node: Start) -> None:
    keeper = node()
    with session_with(keeper, Purpose.PUT) as first, session_with(keeper, Purpose.PUT) as second:
        first.send(Offer(PART, (("a", 4),)))
        assert first.receive() == Want((0,))
        second.send(Offer(PART, (("a", 4),)))
        assert isinstance(second.receive(), frames.Later)


def test_a_fetcher_refuses_another_part_than_it_asked_for(node: Start) -> None:
    holder, fetcher = node(), node()
    holder.publish({"a": 1})
    other = KeptPart(KeptStep(LINEAGE, 1, 1), 0)

    def offer_another(session: Session) -> None:
        session.receive()
        session.send(Offer(other, (("a", 1),)))

    holder.server._handlers = {Purpose.GET: offer_another}
    with pytest.raises(TransferError):
        fetcher.fetch(holder.address)
    assert not fetcher.volume.holdings()


def test_a_part_reaches_a_hundred_fetchers_through_each_other(node: Start) -> None:
    holder = node()
    holder.publish({"a": 50_000})
    fetchers = [node() for _ in range(100)]
    source: dict[str, str] = {}
    for each in (holder, *fetchers):
        note = each.holder._note_served

        def count(part: KeptPart, address: Address, *, note: Any = note, by: Node = each) -> None:
            source[str(address)] = str(by.address)
            note(part, address)

        each.holder._note_served = count  # type: ignore[method-assign]
    for fetch in [Background(partial(each.fetch, holder.address)) for each in fetchers]:
        fetch.result()
    assert all(each.files() == holder.files() for each in fetchers)
    assert source.keys() == {str(each.address) for each in fetchers}
    print(
        f"depth {max(depth(source, str(each.address)) for each in fetchers)}; the first holder served "
        f"{sum(by == str(holder.address) for by in source.values())} of 100"
    )


def depth(source: Mapping[str, str], address: str) -> int:
    """Return through how many copies the part came here."""
    return 1 + depth(source, source[address]) if address in source else 0
