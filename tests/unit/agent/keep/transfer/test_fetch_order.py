"""Which holder a fetcher asks next: busy ones again later, useless ones never."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.transfer.fetch_order import MAX_FAILURES, MAX_SOURCES, FetchOrder, NextSource
from elasticjob_agent.rendezvous.protocol.link_handshake import Address

A, B, C = (Address("10.0.0.1", port) for port in (1, 2, 3))


def order(*holders: Address) -> FetchOrder:
    return FetchOrder(holders, random=lambda: 1.0)


def test_the_first_holder_is_asked_first() -> None:
    assert order(A, B).next_source(now_s=5.0) == NextSource(A, 0.0)


def test_without_holders_there_is_no_source() -> None:
    assert order().next_source(now_s=0.0) is None


def test_a_busy_holder_is_asked_after_those_that_it_names() -> None:
    sources = order(A)
    sources.note_busy(A, [B, C], now_s=1.0)
    assert sources.next_source(now_s=1.0) == NextSource(B, 0.0)
    sources.note_useless(B)
    sources.note_useless(C)
    source = sources.next_source(now_s=1.0)
    assert source is not None
    assert source.wait_s == pytest.approx(0.05)


def test_the_pause_of_a_busy_holder_grows_to_a_limit_and_never_ends() -> None:
    sources, pauses = order(A), []
    for _ in range(20):
        sources.note_busy(A, [], now_s=0.0)
        source = sources.next_source(now_s=0.0)
        assert source is not None
        pauses.append(source.wait_s)
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert pauses[-1] == 2.0


def test_the_pause_differs_between_fetchers() -> None:
    sources = FetchOrder([A], random=lambda: 0.0)
    sources.note_busy(A, [], now_s=0.0)
    assert sources.next_source(now_s=0.0) == NextSource(A, 0.025)


def test_a_holder_that_fails_often_is_given_up() -> None:
    sources = order(A)
    for _ in range(MAX_FAILURES):
        assert sources.next_source(now_s=0.0) is not None
        sources.note_failure(A, progressed=False, now_s=0.0)
    assert sources.next_source(now_s=0.0) is None


def test_a_holder_from_which_something_arrives_is_not_given_up() -> None:
    sources = order(A)
    for _ in range(10 * MAX_FAILURES):
        sources.note_failure(A, progressed=True, now_s=0.0)
    assert sources.next_source(now_s=0.0) == NextSource(A, 0.2)


def test_another_holder_is_asked_while_one_has_failed() -> None:
    sources = order(A, B)
    sources.note_failure(A, progressed=False, now_s=0.0)
    assert sources.next_source(now_s=0.0) == NextSource(B, 0.0)


def test_a_holder_without_the_part_is_not_asked_again_though_others_name_it() -> None:
    sources = order(A, B)
    sources.note_useless(B)
    sources.note_busy(A, [B], now_s=0.0)
    assert sources.next_source(now_s=0.0) == NextSource(A, 0.05)


def test_a_holder_that_names_more_and_more_addresses_is_not_believed_for_ever() -> None:
    sources = order(A)
    for port in range(2 * MAX_SOURCES):
        sources.note_busy(A, [Address("10.0.0.2", port)], now_s=0.0)
    assert len(sources._sources) == MAX_SOURCES


_events = st.tuples(st.sampled_from(["busy", "failure", "progress", "useless"]), st.lists(st.sampled_from([A, B, C])))


@given(st.lists(_events, max_size=30))
def test_any_answers_leave_a_source_that_was_not_useless_or_none(events: list[tuple[str, list[Address]]]) -> None:
    sources, useless, now_s = order(A), set(), 0.0
    for event, named in events:
        if (source := sources.next_source(now_s=now_s)) is None:
            return
        assert source.address not in useless
        assert source.wait_s >= 0.0
        now_s += source.wait_s
        match event:
            case "busy":
                sources.note_busy(source.address, named, now_s=now_s)
            case "useless":
                useless.add(source.address)
                sources.note_useless(source.address)
            case _:
                sources.note_failure(source.address, progressed=event == "progress", now_s=now_s)
