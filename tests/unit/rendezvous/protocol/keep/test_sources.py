"""Where members fetch parts: short texts, read as they were written, and refused when they are anything else."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.keep.sources import (
    SOURCES_BYTES,
    Sources,
    assign_sources,
    parse_sources,
    persisted_sources,
)
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Holdings, KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member

MEMBERS = [Member(slot, f"{slot:08x}") for slot in range(4)]
LEAVING = Member(9, "0000000f")


def step(parts: int) -> KeptStep:
    return KeptStep(Lineage(1, "a"), 5, parts)


def assign(parts: int, *held: set[int], leaving: set[int] | None = None) -> str:
    holdings = {member: {step(parts): frozenset(each)} for member, each in zip(MEMBERS, held, strict=False)}
    if leaving:
        holdings[LEAVING] = {step(parts): frozenset(leaving)}
    return assign_sources(step(parts), MEMBERS[: len(held)], holdings)


def test_each_part_at_its_own_rank_is_one_word() -> None:
    assert assign(3, {0}, {1}, {2}) == "0-2:0"
    assert assign(3, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}) == "0-2:0"


def test_a_part_whose_member_was_lost_is_at_its_replica() -> None:
    assert assign(4, {0}, set(), {2, 1}, {3}) == "0:0,1:2,2-3:2"


def test_a_part_that_only_a_leaving_node_has_names_that_node() -> None:
    assert assign(4, {0}, {3}, leaving={1, 2, 3}) == f"0:0,1-2:x{LEAVING.token},3:1"


def test_a_part_without_a_holder_leaves_the_text_empty() -> None:
    assert assign(2, {0}) == ""


def test_a_long_text_is_left_out() -> None:
    # All odd parts are at the one member and all even parts at the other, so no two parts share a word.
    evens, odds = set(range(0, 2000, 2)), set(range(1, 2000, 2))
    assert assign(2000, evens, odds) == ""
    assert 0 < len(assign(400, {*range(0, 400, 2)}, {*range(1, 400, 2)})) <= SOURCES_BYTES


@given(
    st.integers(1, 6).flatmap(
        lambda parts: st.tuples(
            st.just(parts), st.lists(st.frozensets(st.integers(0, parts - 1)), min_size=5, max_size=5)
        )
    )
)
def test_the_named_node_holds_the_part(case: tuple[int, list[frozenset[int]]]) -> None:
    parts, sets = case
    holdings: Mapping[Member, Holdings] = {
        member: {step(parts): held} for member, held in zip([*MEMBERS, LEAVING], sets, strict=True)
    }
    text = assign_sources(step(parts), MEMBERS, holdings)
    found = parse_sources(text, step(parts), MEMBERS).holders
    if frozenset().union(*sets) == frozenset(range(parts)):
        assert found is not None
        assert found.keys() == set(range(parts))
        assert all(part in holdings[member][step(parts)] for part, member in found.items())
    else:
        assert found is None


def test_the_shared_directory_is_named_with_its_run() -> None:
    assert parse_sources(persisted_sources("1a2b3c4d"), step(3), MEMBERS) == Sources(run="1a2b3c4d")


def test_no_text_names_no_holder() -> None:
    assert parse_sources("", step(3), MEMBERS) == Sources()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0-1:9", id="a rank that no member has"),
        pytest.param("0-3:2", id="ranks beyond the last member"),
        pytest.param("4:0", id="a part that the step does not have"),
        pytest.param("2-1:0", id="parts backwards"),
        pytest.param("00:0", id="a leading zero"),
        pytest.param("0:0,", id="an empty word"),
        pytest.param("0:xzz", id="half a token"),
        pytest.param("0:x000g00000001", id="a token that is no number"),
        pytest.param("٣:0", id="a digit of another script"),
        pytest.param("p:", id="an empty run"),
        pytest.param("p:../x", id="a run that leaves a directory"),
        pytest.param("0:0," * SOURCES_BYTES, id="a long text"),
    ],
)
def test_a_text_that_is_no_list_of_sources_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        parse_sources(text, step(4), MEMBERS)


@given(st.text("0123456789-:,xp", max_size=30) | st.text(max_size=20), st.integers(1, 9))
def test_any_text_is_read_or_a_record_error(text: str, parts: int) -> None:
    try:
        found = parse_sources(text, step(parts), MEMBERS)
    except RecordError:
        return
    assert all(0 <= part < parts for part in found.holders or ())
