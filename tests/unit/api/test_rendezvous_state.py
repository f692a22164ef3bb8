"""The state and its neighbours in compact form: there and back, and refused when corrupt."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import History, KeptStep, Lineage
from elasticjob_api.keys import FailureKey
from elasticjob_api.rendezvous_state import (
    MEMBER_BYTES,
    Cause,
    Leader,
    Member,
    Membership,
    RendezvousState,
    RoundPhase,
    charged_ages_s,
    decode_layout,
    decode_leader,
    decode_membership,
    decode_state,
    encode_charged_failures,
    encode_layout,
    encode_leader,
    encode_membership,
    encode_state,
    next_round,
)

members = st.builds(
    Member, st.integers(0, 0xFFFF), st.text("0123456789abcdef", min_size=8, max_size=8)
)  # four and eight hex digits
texts = st.text()
states = st.builds(
    RendezvousState,
    phase=st.sampled_from(RoundPhase),
    round=st.integers(0),
    nonce=st.text(min_size=1),
    restarts=st.integers(0),
    node_losses=st.integers(0),
    cause=st.sampled_from(Cause),
    message=texts,
    root_cause=texts,
    has_verdict=st.booleans(),
    loss_grace_spent=st.booleans(),
    restart_id=texts,
    startup_failures=st.integers(0),
    port_retries=st.integers(0),
    charged_failures=texts,
    master=texts,
    nprocs=texts,
    roles=texts,
    run=texts,
    history=texts,
    restore=texts,
    sources=texts,
    shift=texts,
    members=st.lists(members).map(tuple),
)

KEEP_WORDS = {b"run", b"history", b"restore", b"sources", b"shift"}
A, B = Member(0x12, "0000000a"), Member(0xFFFF, "deadbeef")
PLAIN = RendezvousState(phase=RoundPhase.ACTIVE, round=7, nonce="n", members=(A, B))


@given(states)
def test_a_state_comes_back_as_it_was_whatever_is_in_it(state: RendezvousState) -> None:
    assert decode_state(encode_state(state)) == state


@given(states, st.sampled_from([f.name for f in fields(RendezvousState) if f.name != "members"]))
def test_each_field_of_a_state_is_carried_by_itself(state: RendezvousState, name: str) -> None:
    other = replace(PLAIN, **{name: getattr(state, name)})
    assert decode_state(encode_state(other)) == other


def test_the_members_are_the_last_line_and_nothing_else_is() -> None:
    head, _, tail = encode_state(replace(PLAIN, message="two\nlines", nonce="a b=c")).partition(b"\n")
    assert tail == b"00120000000affffdeadbeef"
    assert head.startswith(b"w1 state=active round=7")


def test_a_thousand_members_are_twelve_bytes_each() -> None:
    crowd = tuple(Member(slot, f"{slot:08x}") for slot in range(1000))
    size = len(encode_state(replace(PLAIN, members=crowd))) - len(encode_state(replace(PLAIN, members=())))
    assert size == 1000 * MEMBER_BYTES


def test_a_word_of_a_newer_version_is_ignored() -> None:
    data = encode_state(PLAIN).replace(b"w1 ", b"w1 colour=blue ")
    assert decode_state(data) == PLAIN


def test_a_version_without_keep_ignores_its_words() -> None:
    kept = replace(PLAIN, run="0badcafe", history="7.n.*", restore="6.m.120.8", sources="0-7:0", shift="3")
    head, newline, tail = encode_state(kept).partition(b"\n")
    words = [word for word in head.split(b" ") if word.split(b"=")[0] not in KEEP_WORDS]
    assert b" ".join(words) + newline + tail == encode_state(PLAIN)


def test_a_cause_of_a_newer_version_is_unknown() -> None:
    state = decode_state(b"w1 state=active round=1 nonce=n cause=Replaced detail=why\n")
    assert (state.cause, state.message) == (Cause.UNKNOWN, "why")


def test_what_a_newer_version_adds_to_a_closer_or_a_membership_is_ignored() -> None:
    assert decode_leader(b"00010000000a 10.0.0.1:7 v=2 more") == Leader(Member(1, "0000000a"), "10.0.0.1:7")
    assert decode_membership(b"3 v=2 more\n00010000000a") == Membership(3, (Member(1, "0000000a"),))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n", id="an empty line"),
        pytest.param(b"w2 state=active round=1 nonce=n\n", id="another version"),
        pytest.param(b'{"state":"active"}', id="JSON"),
        pytest.param(b"\xff\xfe\n", id="not text"),
        pytest.param(b"w1\n", id="no fields"),
        pytest.param(b"w1 state=active round=1\n", id="no nonce"),
        pytest.param(b"w1 state=eaten round=1 nonce=n\n", id="an unknown state"),
        pytest.param(b"w1 state=active round=one nonce=n\n", id="a round that is no number"),
        pytest.param(b"w1 state=active round=1 nonce\n", id="a word without a value"),
        pytest.param(b"w1 state=active round=1 nonce=n\n0001", id="a member cut off"),
        pytest.param(b"w1 state=active round=1 nonce=n\nwxyz0000000a", id="a slot that is no number"),
        pytest.param(b"w1 state=active round=1 nonce=n\n0001000000\xc3\xa9", id="members that are not ASCII"),
    ],
)
def test_a_corrupt_state_is_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_state(data)


@given(st.binary())
def test_any_bytes_are_a_state_or_a_record_error(data: bytes) -> None:
    for decode in (decode_state, decode_membership):
        try:
            decode(data)
        except RecordError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"nonsense", id="no member"),
        pytest.param(b"0001000000", id="a member cut off"),
        pytest.param(b"00010000000a00020000000b x", id="two members"),
        pytest.param(b"wxyz0000000a h:1", id="a slot that is no number"),
        pytest.param(b"00010000000a \xff", id="a link that is not text"),
    ],
)
def test_a_corrupt_closer_is_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_leader(data)


@given(members, st.sampled_from(["", "10.0.0.1:7", "[fd00::1]:7"]))
def test_a_closer_comes_back_as_it_was(member: Member, link: str) -> None:
    assert decode_leader(encode_leader(Leader(member, link))) == Leader(member, link)


@given(st.integers(0), st.lists(members).map(tuple))
def test_a_membership_comes_back_as_it_was(round_: int, crowd: tuple[Member, ...]) -> None:
    assert decode_membership(encode_membership(Membership(round_, crowd))) == Membership(round_, crowd)


@pytest.mark.parametrize("data", [b"", b"x\n", b"1\n0001", b"1\nwxyz0000000a"])
def test_a_corrupt_membership_is_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_membership(data)


def test_the_order_of_states_is_by_round_and_then_by_phase() -> None:
    phases = [RoundPhase.FORMING, RoundPhase.ACTIVE, RoundPhase.SUSPENDED, RoundPhase.SUCCEEDED, RoundPhase.FAILED]
    grown = [replace(PLAIN, round=round_, phase=phase).order for round_ in (1, 2) for phase in phases]
    assert sorted(set(grown)) == grown


def test_only_the_two_ends_are_final() -> None:
    assert [phase for phase in RoundPhase if phase.is_final] == [RoundPhase.SUCCEEDED, RoundPhase.FAILED]


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.text())))
def test_a_layout_comes_back_as_it_was(nodes: list[tuple[int, str]]) -> None:
    nprocs, roles = encode_layout(nodes)
    assert decode_layout(nprocs, roles) == nodes
    assert replace(PLAIN, nprocs=nprocs).workers_per_node() == [workers for workers, _ in nodes]


def test_equal_neighbours_are_written_once() -> None:
    assert encode_layout([(2, "a"), (2, "a"), (2, "b,*"), (1, "a")]) == ("2x3,1x1", "a*2,b%2C%2A*1,a*1")


@pytest.mark.parametrize(
    "nprocs",
    ["2", "2x", "2xtwo", "x", "twox2", "2x-1", "-1x2", "65536x1", "2x65537", "2x999999999999", f"{'9' * 5000}x1"],
)
def test_corrupt_numbers_of_workers_are_a_record_error(nprocs: str) -> None:
    with pytest.raises(RecordError):
        replace(PLAIN, nprocs=nprocs).workers_per_node()
    with pytest.raises(RecordError):
        decode_layout(nprocs, "a*2")


def test_a_layout_needs_a_role_for_each_node() -> None:
    with pytest.raises(RecordError, match="2 nodes have workers, 1 have roles"):
        decode_layout("2x2", "a*1")


@given(st.integers(0), st.lists(st.floats(0, 1e6)))
def test_charged_failures_come_back_with_tenths_of_a_second(round_: int, ages_s: list[float]) -> None:
    text = encode_charged_failures(round_, ages_s)
    assert charged_ages_s(text) == tuple(pytest.approx(age_s, abs=0.05 + 1e-9) for age_s in ages_s)
    assert encode_charged_failures(round_, charged_ages_s(text)) == text


@pytest.mark.parametrize(("text", "ages_s"), [("", ()), ("3:", ()), ("3:0.0,12.5", (0.0, 12.5)), ("3:0.0,x", ())])
def test_the_ages_of_charged_failures(text: str, ages_s: tuple[float, ...]) -> None:
    assert charged_ages_s(text) == ages_s


@pytest.mark.parametrize(("text", "key"), [("3/001a.7", FailureKey(3, 26, 7)), ("", None), ("nothing", None)])
def test_the_root_failure_is_named_like_its_key(text: str, key: FailureKey | None) -> None:
    assert replace(PLAIN, root_cause=text).root_failure == key


def test_opening_a_round_charges_nothing_and_keeps_the_counters() -> None:
    last = RendezvousState(
        phase=RoundPhase.ACTIVE, round=4, nonce="old", restarts=2, node_losses=1, root_cause="3/0000.0", restart_id="r",
        has_verdict=True, master="h:1", nprocs="1x1", roles="a*1", members=(Member(0, "0" * 8),),
    )  # fmt: skip
    expected = RendezvousState(
        phase=RoundPhase.FORMING, round=5, nonce="new", restarts=2, node_losses=1, root_cause="3/0000.0",
        restart_id="r", cause=Cause.NODE_LEFT, message="pod-0 leaves",
    )  # fmt: skip
    assert next_round(last, "new", Cause.NODE_LEFT, "pod-0 leaves") == expected


KEPT = replace(PLAIN, nonce="0000000a", run="0badcafe", history="6.0000000f.120", older="2.0000000c.40", shift="3")


def test_a_round_adds_the_lineage_before_it_to_the_history() -> None:
    opened = next_round(KEPT, "0000000b", Cause.WORKER_FAILED)
    assert (opened.run, opened.history, opened.shift) == ("0badcafe", "7.0000000a.*,6.0000000f.120", "3")
    assert opened.kept_history().is_alive(KeptStep(Lineage(7, "0000000a"), 10**6, 1))


def test_older_steps_on_disk_stay_behind_the_history_of_the_next_round() -> None:
    opened = next_round(KEPT, "0000000b", Cause.WORKER_FAILED)
    line = opened.kept_history().followed_by(opened.older_history())
    assert str(line) == "7.0000000a.*,6.0000000f.120,2.0000000c.40"
    assert replace(opened, older="2.../x.4").older_history() == History()


def test_a_round_restores_nothing_before_it_is_active() -> None:
    opened = next_round(replace(KEPT, restore="6.0000000f.120.8", sources="0-7:0"), "0000000b", Cause.NODE_LOST)
    assert (opened.restore, opened.sources) == ("", "")


def test_there_is_no_history_while_keep_is_off() -> None:
    assert next_round(replace(PLAIN, nonce="0000000a"), "0000000b", Cause.NODE_LOST).history == ""


@pytest.mark.parametrize("phase", [phase for phase in RoundPhase if phase is not RoundPhase.ACTIVE])
def test_a_round_that_never_became_active_is_not_in_the_history(phase: RoundPhase) -> None:
    assert replace(KEPT, phase=phase).history_of_next_round() == "6.0000000f.120"


def test_a_history_that_cannot_be_read_is_left_out_of_the_next_one() -> None:
    assert replace(KEPT, history="6.../x.*").history_of_next_round() == "7.0000000a.*"
    assert replace(KEPT, nonce="../x").history_of_next_round() == "6.0000000f.120"


@given(states)
def test_any_state_has_a_next_round(state: RendezvousState) -> None:
    opened = next_round(replace(state, phase=RoundPhase.ACTIVE, run="0badcafe"), "0000000b", Cause.NODE_LOST)
    assert decode_state(encode_state(opened)) == opened


def test_the_step_to_restore_is_read_from_its_word() -> None:
    assert PLAIN.step_to_restore() is None
    assert replace(PLAIN, restore="6.0000000f.120.8").step_to_restore() == KeptStep(Lineage(6, "0000000f"), 120, 8)


def test_a_step_to_restore_that_cannot_be_read_is_a_record_error_and_never_none() -> None:
    with pytest.raises(RecordError):
        replace(PLAIN, restore="6.0000000f.120").step_to_restore()


@pytest.mark.parametrize(("text", "shift"), [("", 0), ("3", 3), ("0", 0), ("-1", 0), ("x", 0), ("9" * 5000, 0)])
def test_a_shift_that_cannot_be_read_is_unknown(text: str, shift: int) -> None:
    assert replace(PLAIN, shift=text).replica_shift() == shift


def test_a_failed_restore_stops_the_peers_fast_since_they_wait_for_the_node() -> None:
    assert next_round(PLAIN, "m", Cause.RESTORE_FAILED).is_failure_stop


def test_the_summary_is_one_bounded_line_without_control_characters() -> None:
    state = replace(PLAIN, cause=Cause.OPERATOR, message="a\n[rank7] \x1b[2J" + "b" * 10_000)
    assert state.summary.startswith("round 7 is active: Operator a [rank7]  [2Jb")
    assert state.summary.isprintable()
    assert len(state.summary) < 700


def test_the_summary_of_the_round_after_a_failure_has_the_verdict() -> None:
    state = replace(PLAIN, cause=Cause.WORKER_FAILED, message="rank 1 exited with code 1; next attempt in 2 s")
    assert state.summary == f"round 7 is active: WorkerFailed {state.message}"


@pytest.mark.parametrize(
    ("phase", "cause"), [(RoundPhase.FORMING, Cause.WORKER_FAILED), (RoundPhase.FAILED, Cause.JOIN_TIMEOUT)]
)
def test_the_summary_has_no_message_that_other_lines_have(phase: RoundPhase, cause: Cause) -> None:
    state = replace(PLAIN, phase=phase, cause=cause, message="boom")
    assert state.summary == f"round 7 is {phase.value}: {cause.value}"
