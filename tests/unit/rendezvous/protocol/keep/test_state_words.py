"""The words of Keep in the states of a leader, and of a node that could not restore a step."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.keep.sources import parse_sources
from elasticjob_agent.rendezvous.protocol.keep.state_words import round_after_failed_restore
from elasticjob_agent.rendezvous.protocol.leader_plan import Wait, WriteState, plan
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.records import TombstoneReason
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from tests.unit.rendezvous.views import KEYS, ViewBuilder, member, observed_at, view_builder

RUN = "0badcafe"
FIRST, SECOND = Lineage(1, "nonce1"), Lineage(2, "nonce2")
OLD, NEW = KeptStep(FIRST, 100, 3), KeptStep(FIRST, 120, 3)
HISTORY = "1.nonce1.*"


def kept(steps: Holdings, persisted: PersistedStep | None = None) -> HoldingsRecord:
    return HoldingsRecord(port=7, steps=steps, persisted=persisted)


def parts(*indices: int) -> frozenset[int]:
    return frozenset(indices)


def forming(round_: int = 2, history: str = HISTORY, **fields: Any) -> ViewBuilder:
    """Return a job whose last round had slots 0, 1, 2; its members are ready, and Keep is on."""
    job = view_builder(1, 3, keep_copies=1).nodes(0, 1, 2, ready=round_).members(round_ - 1, 0, 1, 2)
    return job.forming(round_, has_verdict=True, run=RUN, history=history, **fields)


def closed(job: ViewBuilder) -> RendezvousState:
    decision = plan(job.build(), observed_at(0.0), "fresh")
    assert isinstance(decision, WriteState), decision
    assert decision.state.phase is RoundPhase.ACTIVE
    return decision.state


def with_both_steps() -> ViewBuilder:
    """Return a job in which each node has its own part, and a replica of the part of the node before it."""
    job = forming()
    for slot in range(3):
        own = parts(slot, (slot - 1) % 3)
        job.holdings(slot, kept({OLD: own, NEW: own}))
    return job


def test_a_job_that_keeps_nothing_has_no_word_of_it() -> None:
    job = view_builder(1, 3).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2).forming(2, has_verdict=True)
    state = closed(job.holdings(0, kept({NEW: parts(0, 1, 2)})))
    assert (state.run, state.history, state.restore, state.sources, state.shift) == ("", "", "", "", "")


def test_the_first_active_state_of_a_job_that_keeps_steps_draws_its_run_and_later_ones_have_the_same() -> None:
    job = view_builder(1, 3, keep_copies=1).nodes(0, 1, 2, ready=0).forming(1)
    assert closed(job).run == "fresh"
    assert closed(forming()).run == RUN


def test_a_job_that_keeps_nothing_any_more_gives_its_run_up() -> None:
    job = view_builder(1, 3).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2)
    state = closed(job.forming(2, has_verdict=True, run=RUN, history=HISTORY, shift="1"))
    assert (state.run, state.history, state.restore, state.shift) == ("", "", "", "")


@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_step_without_its_copies_needs_the_older_ones_behind_it(copies: int) -> None:
    job = view_builder(1, 3, keep_copies=copies).nodes(0, 1, 2, ready=4).members(3, 0, 1, 2)
    job.forming(4, has_verdict=True, run=RUN, history="3.nonce3.*,2.nonce2.130,1.nonce1.120")
    newest, newer = KeptStep(Lineage(3, "nonce3"), 140, 3), KeptStep(SECOND, 130, 3)
    for slot in range(3):
        job.holdings(slot, kept(dict.fromkeys((NEW, newer, newest), parts(slot, (slot - 1) % 3))))
    state = closed(job)
    assert state.step_to_restore() == newest
    assert state.kept_history().is_alive(newer)
    # Each part has two holders. Nothing older than a safe step is needed.
    assert state.kept_history().is_alive(NEW) is (copies == 2)
    assert bool(state.replica_shift()) is (copies > 0)


def test_the_newest_whole_step_is_restored_with_its_sources() -> None:
    state = closed(with_both_steps())
    assert state.step_to_restore() == NEW
    assert state.kept_history().is_alive(NEW)
    assert not state.kept_history().is_alive(KeptStep(FIRST, 121, 3))
    assert parse_sources(state.sources, NEW, state.members).holders == {part: member(part) for part in range(3)}


def test_after_the_loss_of_a_node_its_part_comes_from_its_replica() -> None:
    state = closed(with_both_steps().lost(1))
    assert state.step_to_restore() == NEW
    holders = parse_sources(state.sources, NEW, state.members).holders
    assert holders is not None
    assert (holders[0], holders[1]) == (member(0), member(2))


def test_a_step_that_is_not_whole_gives_way_to_an_older_one() -> None:
    job = with_both_steps().lost(1)
    job.holdings(2, kept({OLD: parts(1, 2), NEW: parts(2)}))
    assert closed(job).step_to_restore() == OLD


def test_a_node_that_leaves_still_serves_its_parts() -> None:
    job = forming().node(2, ready=2, leaving=True)
    job.holdings(0, kept({NEW: parts(0)})).holdings(1, kept({NEW: parts(1)})).holdings(2, kept({NEW: parts(2)}))
    state = closed(job)
    assert member(2) not in state.members
    assert state.step_to_restore() == NEW
    assert (parse_sources(state.sources, NEW, state.members).holders or {})[2] == member(2)


@pytest.mark.parametrize("is_gone", [True, False], ids=["left", "in an older session"])
def test_parts_that_no_live_session_has_are_not_counted(is_gone: bool) -> None:  # noqa: FBT001 -- a column of the table
    job = forming()
    job.holdings(0, kept({OLD: parts(0, 1, 2), NEW: parts(0)})).holdings(1, kept({NEW: parts(1)}))
    old = member(2)
    job.put_raw(KEYS.holdings(old.slot, old.incarnation), b"k1 7 - 1.nonce1.120.3:2")
    if is_gone:
        job.tombstone(2, TombstoneReason.LEFT)
    else:
        job.node(2, incarnation="ffffffff", ready=2)
    assert job.build().holdings[old].steps == {NEW: parts(2)}
    assert closed(job).step_to_restore() == OLD


def test_nothing_is_restored_if_nothing_is_whole() -> None:
    state = closed(forming().holdings(0, kept({NEW: parts(0)})))
    assert (state.restore, state.sources, state.history) == ("", "", "")
    assert state.run == RUN


def test_a_step_of_a_branch_that_was_given_up_is_never_restored() -> None:
    job = forming(3, history="2.nonce2.*,1.nonce1.100")
    job.holdings(0, kept({NEW: parts(0, 1, 2), OLD: parts(0, 1, 2)}))
    assert closed(job).step_to_restore() == OLD


def test_a_history_that_cannot_be_read_restores_nothing_also_not_of_other_runs() -> None:
    other = PersistedStep("another", KeptStep(Lineage(9, "x"), 5, 1))
    state = closed(forming(history="1.../x.*").holdings(0, kept({NEW: parts(0, 1, 2)}, other)))
    assert (state.restore, state.history) == ("", "")


def test_a_persisted_step_is_restored_from_the_shared_directory() -> None:
    state = closed(forming().holdings(0, kept({OLD: parts(0, 1, 2)}, PersistedStep(RUN, NEW))))
    assert state.step_to_restore() == NEW
    assert parse_sources(state.sources, NEW, state.members).run == RUN


def waits_for(job: ViewBuilder) -> str:
    """Return why the leader does not close the round; empty if it does. It waits without a limit."""
    decision = plan(job.build(), observed_at(0.0), "fresh")
    if isinstance(decision, WriteState):
        return ""
    assert isinstance(decision, Wait)
    assert decision.until_s is None
    return decision.reason


def looked(has_listed: bool | None, *, memory: bool = False, disk: bool = False) -> HoldingsRecord:  # noqa: FBT001 -- a column of the table
    """Return a node that has all parts of a step in memory, or has found a step in the shared directory."""
    steps = {NEW: parts(0, 1, 2)} if memory else {}
    persisted = PersistedStep(RUN, KeptStep(FIRST, 130, 3)) if disk else None
    return HoldingsRecord(port=7, steps=steps, persisted=persisted, has_listed=has_listed)


LISTED, UNLISTED, UNKNOWN = True, False, None
KEEPERLESS = HoldingsRecord(port=0, has_listed=False)


@pytest.mark.parametrize(
    ("nodes", "awaited"),
    [
        pytest.param([looked(LISTED), looked(LISTED), looked(LISTED)], "", id="all have listed it: there is nothing"),
        pytest.param([looked(LISTED), looked(UNLISTED), looked(LISTED)], "[1]", id="one may miss what is there"),
        pytest.param([looked(UNLISTED)] * 3, "[0, 1, 2]", id="no node has listed it"),
        pytest.param([looked(UNLISTED, memory=True)] * 3, "[0, 1, 2]", id="a newer step may be there"),
        pytest.param([looked(UNLISTED, memory=True), looked(LISTED), looked(UNLISTED)], "", id="memory has the newest"),
        pytest.param([KEEPERLESS, looked(LISTED, memory=True), looked(UNLISTED)], "[0]", id="it can restore nothing"),
        pytest.param([KEEPERLESS] * 3, "[0, 1, 2]", id="no node can list it"),
        pytest.param([looked(UNLISTED), looked(LISTED, disk=True), looked(LISTED)], "[0]", id="each one reads it"),
        pytest.param([looked(UNLISTED, memory=True), looked(LISTED, disk=True), looked(LISTED)], "[0]", id="newer"),
        pytest.param([looked(UNLISTED, disk=True)] * 3, "[0, 1, 2]", id="found before the state was known"),
        pytest.param([looked(LISTED, disk=True)] * 3, "", id="all have found the step"),
        pytest.param([looked(UNKNOWN)] * 3, "", id="earlier agents, or none with a directory"),
        pytest.param([looked(UNLISTED, memory=True), looked(UNKNOWN), looked(UNKNOWN)], "[0]", id="no node knows it"),
        pytest.param(
            [looked(UNLISTED, memory=True), looked(UNKNOWN, disk=True), looked(UNKNOWN)], "[0]", id="an earlier agent's"
        ),
    ],
)
def test_a_round_waits_for_members_that_have_not_listed_the_directory_unless_memory_has_the_newest_step(
    nodes: list[HoldingsRecord], awaited: str
) -> None:
    job = forming()
    for slot, record in enumerate(nodes):
        job.holdings(slot, record)
    assert waits_for(job) == (f"slots {awaited} have not listed keep.persistTo" if awaited else "")


@pytest.mark.parametrize(
    ("nodes", "awaited"),
    [
        pytest.param([looked(LISTED, disk=True)] * 3, "[2]", id="its list may be old"),
        pytest.param([looked(LISTED), looked(LISTED, memory=True), looked(LISTED)], "", id="memory has the newest"),
        pytest.param([looked(UNLISTED), looked(UNLISTED, memory=True), looked(LISTED)], "[0, 1, 2]", id="none knows"),
        pytest.param([looked(UNKNOWN), looked(UNKNOWN), looked(LISTED)], "[2]", id="earlier agents beside it"),
    ],
)
def test_a_list_of_a_node_that_is_not_ready_does_not_count(nodes: list[HoldingsRecord], awaited: str) -> None:
    job = view_builder(1, 3, keep_copies=1).nodes(0, 1, ready=2).members(1, 0, 1).node(2)
    job.forming(2, has_verdict=True, cause=Cause.NODE_JOINED, run=RUN, history=HISTORY)
    for slot, record in enumerate(nodes):
        job.holdings(slot, record)
    assert waits_for(job) == (f"slots {awaited} have not listed keep.persistTo" if awaited else "")


def test_a_job_without_keep_waits_for_no_list() -> None:
    job = view_builder(1, 3).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2).forming(2, has_verdict=True)
    assert waits_for(job.holdings(0, looked(UNLISTED))) == ""


def test_the_verdict_is_written_while_a_round_waits_for_a_list() -> None:
    job = view_builder(1, 3, keep_copies=1).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2).forming(2, run=RUN)
    decision = plan(job.holdings(0, looked(UNLISTED)).build(), observed_at(0.0), "fresh")
    assert isinstance(decision, WriteState)
    assert (decision.state.phase, decision.state.has_verdict) == (RoundPhase.FORMING, True)


def test_the_shift_of_the_last_round_remains() -> None:
    assert closed(forming(shift="2")).replica_shift() == 2
    assert closed(forming()).replica_shift() in {1, 2}


# A restore that failed.


def restoring(step: KeptStep = NEW, history: str = "1.nonce1.120", **fields: Any) -> RendezvousState:
    return RendezvousState(
        phase=RoundPhase.ACTIVE, round=2, nonce="nonce2", run=RUN, history=history, restore=str(step), **fields
    )


def test_a_step_that_could_not_be_restored_is_struck_and_older_ones_remain() -> None:
    opened = round_after_failed_restore(restoring(), "nonce3", "pod-1 could not restore it")
    history = opened.kept_history()
    assert (opened.phase, opened.round, opened.cause) == (RoundPhase.FORMING, 3, Cause.RESTORE_FAILED)
    assert (history.is_alive(NEW), history.is_alive(OLD), history.is_alive(KeptStep(SECOND, 121, 3))) == (
        False,
        True,
        True,
    )


def test_a_step_that_counts_on_disk_only_is_struck_as_well() -> None:
    opened = round_after_failed_restore(restoring(older="0.nonce0.9"), "nonce3", "")
    assert opened.older == "0.nonce0.9"
    step = KeptStep(Lineage(0, "nonce0"), 9, 1)
    opened = round_after_failed_restore(restoring(step, older="0.nonce0.9"), "nonce3", "")
    assert opened.older == "0.nonce0.8"


def test_the_next_round_restores_an_older_step_though_all_nodes_still_have_the_newer_one() -> None:
    job = with_both_steps()
    opened = round_after_failed_restore(closed(job), "nonce3", "")
    again = job.members(2, 0, 1, 2).nodes(0, 1, 2, ready=3)
    again.forming(3, has_verdict=True, run=opened.run, history=opened.history)
    assert closed(again).step_to_restore() == OLD


def test_a_failed_restore_is_charged_to_no_worker() -> None:
    job = with_both_steps()
    opened = round_after_failed_restore(closed(job), "nonce3", "")
    job.members(2, 0, 1, 2).nodes(0, 1, 2, ready=3)
    job.forming(3, cause=opened.cause, run=opened.run, history=opened.history, restarts=1)
    state = closed(job)
    assert (state.restarts, state.node_losses, state.startup_failures) == (1, 0, 0)


@pytest.mark.parametrize(
    "words",
    [{"restore": ""}, {"restore": "1.nonce1.120"}, {"nonce": "../x", "history": "1.../x.*"}],
    ids=["no step", "an unreadable step", "an unreadable history"],
)
def test_a_state_with_corrupt_words_still_has_a_next_round(words: dict[str, str]) -> None:
    fields = {"phase": RoundPhase.ACTIVE, "round": 2, "nonce": "nonce2", "run": RUN, "restore": str(NEW), **words}
    opened = round_after_failed_restore(RendezvousState(**fields), "nonce3", "")  # type: ignore[arg-type]  # a table of fields
    assert (opened.round, opened.cause) == (3, Cause.RESTORE_FAILED)


steps = st.builds(
    KeptStep, st.builds(Lineage, st.integers(1, 3), st.just("nonce")), st.integers(0, 5), st.integers(1, 3)
)


@given(st.lists(st.dictionaries(steps, st.frozensets(st.integers(0, 2), min_size=1), max_size=4), max_size=3))
def test_restores_that_always_fail_end_after_one_round_for_each_step(
    volumes: list[dict[KeptStep, frozenset[int]]],
) -> None:
    job = forming(4, history="3.nonce.*,2.nonce.4,1.nonce.5")
    for slot, volume in enumerate(volumes):
        held = {step: parts(*(part for part in indices if part < step.parts)) for step, indices in volume.items()}
        job.holdings(slot, kept({step: indices for step, indices in held.items() if indices}))
    most = len({step for volume in volumes for step in volume})
    offered: list[KeptStep] = []
    for round_ in range(4, 6 + most):
        state = closed(job)
        if (step := state.step_to_restore()) is None:
            break
        offered.append(step)
        opened = round_after_failed_restore(state, f"nonce{round_ + 1}", "")
        job.members(round_, 0, 1, 2).nodes(0, 1, 2, ready=round_ + 1)
        job.forming(round_ + 1, has_verdict=True, run=opened.run, history=opened.history)
    else:
        pytest.fail(f"still restoring after {offered}")
    assert len(set(offered)) == len(offered)
