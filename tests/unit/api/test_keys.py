"""The layout of keys: each key shows its kind, no two kinds collide, and no other key is parsed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_api.keys import FailureKey, Keys, ParsedKey, cli_prefix, job_prefix

KEYS = Keys("/elasticjob/cluster/namespace/name/uid")
slots = st.integers(0, 0xFFFF)
incarnations = st.text("0123456789abcdef", min_size=8, max_size=8)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (KEYS.spec, "spec"),
        (KEYS.expected, "expected"),
        (KEYS.rendezvous_state, "world"),
        (KEYS.leader, "closer"),
        (KEYS.members, "members"),
    ],
)
def test_single_keys(key: str, kind: str) -> None:
    assert KEYS.parse(key) == ParsedKey(kind)  # type: ignore[arg-type]  # the table is wider than the type


@given(slots, incarnations)
def test_keys_of_a_stay(slot: int, incarnation: str) -> None:
    kinds = {"node": KEYS.node, "held": KEYS.holdings, "gone": KEYS.tombstone}
    kinds |= {"report": KEYS.report, "samples": KEYS.samples}
    parsed = {kind: KEYS.parse(make(slot, incarnation)) for kind, make in kinds.items()}
    assert parsed == {kind: ParsedKey(kind, slot=slot, incarnation=incarnation) for kind in kinds}  # type: ignore[arg-type]  # as above


@given(st.integers(0, 10**9), slots, st.integers(0, 1000))
def test_keys_of_a_round(round_: int, slot: int, local_rank: int) -> None:
    failure, done = KEYS.failure(round_, slot, local_rank), KEYS.completion(round_, slot)
    assert KEYS.parse(failure) == ParsedKey("failure", slot=slot, round=round_, local_rank=local_rank)
    assert KEYS.parse(done) == ParsedKey("done", slot=slot, round=round_)
    assert failure.startswith(KEYS.failures(round_))
    assert done.startswith(KEYS.completions(round_))


@given(st.integers(0, 10**9), slots, st.integers(0, 1000))
def test_a_failure_is_named_by_the_end_of_its_key(round_: int, slot: int, local_rank: int) -> None:
    key = FailureKey(round_, slot, local_rank)
    assert KEYS.failure(round_, slot, local_rank) == f"{KEYS.control}failures/{key}"
    assert FailureKey.parse(str(key)) == key


@pytest.mark.parametrize("text", ["", "3", "3/0001", "3/0001.", "3/1.0", "3/0001.0 ", "03/0001.0", "1/zzzz.-1"])
def test_other_text_names_no_failure(text: str) -> None:
    assert FailureKey.parse(text) is None


def test_the_prefix_of_a_round_is_not_that_of_another_that_begins_like_it() -> None:
    assert not KEYS.completion(11, 0).startswith(KEYS.completions(1))
    assert not KEYS.failure(11, 0, 0).startswith(KEYS.failures(1))


def test_what_agents_watch_is_the_state_and_the_closer_alone() -> None:
    everything = [
        *(KEYS.spec, KEYS.expected, KEYS.rendezvous_state, KEYS.leader, KEYS.members, KEYS.node(1, "0" * 8)),
        *(KEYS.tombstone(1, "0" * 8), KEYS.report(1, "0" * 8), KEYS.samples(1, "0" * 8)),
        *(KEYS.failure(1, 1, 0), KEYS.completion(1, 1), KEYS.holdings(1, "0" * 8)),
    ]
    assert [key for key in everything if key.startswith(KEYS.ctl)] == [KEYS.rendezvous_state, KEYS.leader]
    reported = [KEYS.report(1, "0" * 8), KEYS.samples(1, "0" * 8)]
    assert [key for key in everything if not key.startswith(KEYS.control)] == reported
    assert all(key.startswith(KEYS.everything) for key in everything)


def test_node_keys_sort_by_slot() -> None:
    keys = [KEYS.node(slot, "0" * 8) for slot in (0, 9, 10, 255, 256, 65535)]
    assert keys == sorted(keys)
    assert all(key.startswith(KEYS.nodes) for key in keys)


def test_one_range_reads_the_holdings_of_all_nodes() -> None:
    assert all(KEYS.holdings(slot, "0" * 8).startswith(KEYS.all_holdings) for slot in (0, 65535))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/elsewhere/c/spec",
        KEYS.prefix,
        KEYS.everything,
        f"{KEYS.prefix}2/c/spec",
        f"{KEYS.spec}/more",
        f"{KEYS.nodes}1.00000000",
        f"{KEYS.nodes}0001.0000000",
        f"{KEYS.nodes}0001.0000000A",
        f"{KEYS.nodes}0001.000000000",
        f"{KEYS.all_holdings}0001.0000000A",
        f"{KEYS.all_holdings}0001.00000000/samples",
        f"{KEYS.failures(1)}0001",
        f"{KEYS.prefix}/c/failures/-1/0001.0",
        f"{KEYS.spec}\n",
        f"{KEYS.prefix}/c/done/{'9' * 5000}/0001",  # `int` would refuse so many digits
        f"{KEYS.prefix}/c/failures/{'9' * 5000}/0001.0",
        f"{KEYS.prefix}/c/failures/1/0001.{'9' * 5000}",
        f"{KEYS.prefix}/c/done/12345678901/0001",
        f"{KEYS.prefix}/c/done/\N{ARABIC-INDIC DIGIT ONE}/0001",
        f"{KEYS.prefix}/c/done/1/000\udcff",
        f"{KEYS.prefix}/c/done/01/0001",  # no second key of one completion
        f"{KEYS.prefix}/c/failures/01/0001.0",
        f"{KEYS.prefix}/c/failures/1/0001.00",
    ],
)
def test_other_keys_are_none_of_this_layout(key: str) -> None:
    assert KEYS.parse(key) is None


def test_prefixes_of_an_operators_job_and_of_the_command_line() -> None:
    assert job_prefix(cluster="c", namespace="n", name="j", uid="u") == "/elasticjob/c/n/j/u"
    assert cli_prefix("run-1") == "/elasticjob/cli/run-1"


@settings(max_examples=500)
@given(
    rest=st.text(max_size=60) | st.from_regex(r"c/(done|failures)/[^/]{1,20}/[^/]{1,8}(\.[^/]{1,12})?", fullmatch=True)
)
def test_any_key_below_the_prefix_is_parsed_or_is_none_of_this_layout(rest: str) -> None:
    found = KEYS.parse(f"{KEYS.everything}{rest}")
    assert found is None or all(number is None or 0 <= number < 10**10 for number in (found.round, found.local_rank))
