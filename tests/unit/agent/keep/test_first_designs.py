"""First designs of Keep that were wrong: a history for each, which breaks a guarantee with it and none without it.

So each guarantee is seen to be able to fail, and each rule is seen to be needed.
"""

from collections.abc import Callable
from typing import Any

import pytest

from elasticjob_api import codec, records
from elasticjob_api.errors import CodecError
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from elasticjob_api.keys import Keys
from tests.unit.agent.keep.sim.checks import Violation
from tests.unit.agent.keep.sim.job import KeepJob
from tests.unit.agent.keep.sim.rules import Rules
from tests.unit.agent.keep.sim.wrong_rules import FIRST_DESIGNS


class Player:
    """A job whose nodes are named by their numbers. An act that is impossible now is left out."""

    def __init__(self, nodes: int, rules: Rules, **options: Any) -> None:
        self.job = KeepJob(nodes, rules=rules, **options)

    def act(self, name: str, *indices: int, **options: Any) -> None:
        """Let this happen at each of these nodes."""
        for index in indices:
            getattr(self.job, name)(self.job.nodes[index], **options)

    def train(self, *publishers: int) -> None:
        """Train one step, and publish at these nodes."""
        self.job.train()
        self.act("publish", *publishers)

    def commit(self, *members: int, receivers: tuple[int, ...] | None = None) -> None:
        """Copy the oldest uncommitted step of these members, commit it, and let some of them know."""
        for choice in range(4):
            self.act("replicate", *members, choice=choice)
        self.answer(*members, receivers=members if receivers is None else receivers)

    def answer(self, *members: int, receivers: tuple[int, ...] = ()) -> None:
        """Let these members announce what they hold, and some of them receive the answer."""
        self.act("announce", *members)
        self.job.decide()
        self.act("receive", *receivers)

    def close(self) -> None:
        """Bring all nodes to the next round, up to its close."""
        self.job.lead()
        for node in self.job.nodes:
            self.job.see(node)
            self.job.report_ready(node)
        self.job.close()
        for node in self.job.nodes:
            self.job.see(node)

    def restore(self, *nodes: int) -> None:
        """Fetch all that is missing, and start the workers."""
        for _ in range(4):
            self.act("fetch", *nodes)
        self.act("start", *nodes)


def mix_two_rounds(rules: Rules) -> KeepJob:
    """A step is its number: part 0 is of round 1, part 1 of round 2."""
    play = Player(2, rules)
    play.train(0)
    play.act("fail_worker", 0)
    play.close()
    play.restore(0, 1)
    play.train(1)
    play.act("fail_worker", 1)
    play.close()
    return play.job


def drop_before_a_commit(rules: Rules) -> KeepJob:
    """Each node keeps its two newest steps: the fast node drops the only one that the slow one has."""
    play = Player(2, rules)
    play.train(0, 1)
    play.train(0)
    play.train(0)
    play.act("fail_worker", 1)
    play.close()
    return play.job


def skip_a_step_for_ever(rules: Rules) -> KeepJob:
    """Without a floor the slow node waits for the copies of a step that the fast one has skipped."""
    play = Player(2, rules)
    play.train(0, 1)
    play.train(0)
    play.train(0)
    play.commit(0, 1)
    return play.job


def change_the_leader(rules: Rules) -> KeepJob:
    """A new leader has not learned the commit that its predecessor answered to one member."""
    play = Player(2, rules)
    play.train(0, 1)
    play.commit(0, 1, receivers=(0,))
    play.job.nodes[1].points.clear()
    play.train(0)
    play.job.change_leader()
    play.answer(0, receivers=(1,))
    play.act("crash", 0)
    play.act("expire", 0)
    play.close()
    return play.job


def commit_without_copies(rules: Rules) -> KeepJob:
    """A step counts as committed when all have published it, and is lost with one node."""
    play = Player(2, rules)
    play.train(0, 1)
    play.answer(0, 1, receivers=(0, 1))
    play.act("crash", 0)
    play.act("expire", 0)
    play.close()
    return play.job


def write_holdings_late(rules: Rules) -> KeepJob:
    """The barrier is passed before the holdings are written."""
    play = Player(2, rules)
    play.train(0, 1)
    play.act("fail_worker", 0)
    play.close()
    return play.job


def fall_back_alone(rules: Rules) -> KeepJob:
    """One node cannot fetch the step that the others have started from."""
    play = Player(2, rules)
    play.train(0, 1)
    play.act("replicate", 0)
    play.act("fail_worker", 0)
    play.close()
    play.act("start", 1)
    play.act("fetch", 0, is_spurious=True)
    play.act("start", 0)
    return play.job


def revive_a_branch(rules: Rules) -> KeepJob:
    """A node was cut off while the others went on without its step, and comes back with it."""
    play = Player(2, rules)
    play.train(0, 1)
    play.act("cut_off", 1)
    play.act("expire", 1)
    play.close()
    play.restore(0)
    play.act("heal", 1)
    play.act("join", 1)
    play.close()
    return play.job


def remember_a_struck_commit(rules: Rules) -> KeepJob:
    """The last commit is remembered in a round that restores an older step."""
    play = Player(3, rules, late=1)
    play.train(0, 1)
    play.commit(0, 1)
    play.train(0, 1)
    play.commit(0, 1, receivers=(0,))
    play.act("join", 2)
    play.close()
    play.act("fetch", 2, is_spurious=True)
    play.close()
    play.restore(0, 1, 2)
    play.answer(0, 1, 2, receivers=(0, 1, 2))
    return play.job


def forget_an_idle_node(rules: Rules) -> KeepJob:
    """A node that is no member any more holds the only copy of a part."""
    play = Player(2, rules)
    play.train(0, 1)
    play.job.wanted = 1
    play.close()
    play.job.wanted = 2
    play.close()
    return play.job


def offer_a_struck_step(rules: Rules) -> KeepJob:
    """A step that could not be fetched is offered again."""
    play = Player(2, rules)
    play.train(0, 1)
    play.act("fail_worker", 0)
    play.close()
    play.act("fetch", 0, is_spurious=True)
    play.close()
    return play.job


def publish_into_another_round(rules: Rules) -> KeepJob:
    """A process of an older round publishes into the directory of the present one."""
    play = Player(2, rules)
    play.train()
    play.act("fail_worker", 0)
    play.close()
    play.restore(0, 1)
    play.train(0)
    play.act("publish_stray", 1, index=1)
    play.act("fail_worker", 0)
    play.close()
    return play.job


def raise_the_floor_too_far(rules: Rules) -> KeepJob:
    """A new node has the restored step only, so the floor drops the committed one before the restored one is safe."""
    play = Player(3, rules, late=1)
    play.train(0, 1)
    play.commit(0, 1)
    play.train(0, 1)
    play.act("join", 2)
    play.close()
    play.restore(0, 1)
    play.act("fetch", 2)
    play.answer(0, 1, 2, receivers=(0, 1))
    play.act("fetch", 2, is_spurious=True)
    play.close()
    return play.job


def drop_an_announced_step(rules: Rules) -> KeepJob:
    """The newest step was announced and is committed. It is superseded by one for which there is no room."""
    play = Player(2, rules, layout="copies")
    play.train(0, 1)
    play.train(0, 1)
    play.answer(0, 1)
    play.job.train()
    play.act("publish", 0, has_room=False)
    play.act("receive", 0)
    play.act("crash", 1)
    play.act("expire", 1)
    play.close()
    return play.job


def commit_a_step_without_room(rules: Rules) -> KeepJob:
    """No peer has room, so a step with a single holder takes the place of one that is safe."""
    play = Player(2, rules)
    play.train(0, 1)
    play.commit(0, 1)
    play.train(0, 1)
    play.act("replicate", 0, 1, has_room=False)
    play.answer(0, 1, receivers=(0, 1))
    play.act("crash", 0)
    play.act("expire", 0)
    play.close()
    return play.job


def supersede_an_announced_step(rules: Rules) -> KeepJob:
    """A step is counted, superseded at one node, and below the floor at the other, before its commit arrives."""
    play = Player(2, rules, layout="copies")
    for _ in range(3):
        play.job.train()
    play.act("publish", 0)
    play.act("publish", 0)
    play.act("announce", 0)
    play.act("publish", 0, 1)
    play.answer(1)
    play.act("publish", 1)
    first = play.job.nodes[0].points.pop()
    play.job.nodes[1].points.clear()
    play.answer(1)
    play.job.nodes[0].points.insert(0, first)
    play.act("receive", 0)
    play.job.nodes[1].points.clear()
    play.answer(0)
    play.act("receive", 0, 1)
    play.act("crash", 0)
    play.act("expire", 0)
    play.close()
    return play.job


def take_a_skipped_step(rules: Rules) -> KeepJob:
    """A node that has announced a newer step takes an older one from a peer, where the floor then drops it."""
    play = Player(2, rules, layout="copies")
    for _ in range(3):
        play.job.train()
    play.act("publish", 0, 0, 0, 1)
    play.answer(0, 1, receivers=(0, 1))
    play.act("publish", 1)
    play.answer(0)
    play.act("replicate", 1)
    play.job.nodes[0].points.clear()
    late = play.job.nodes[1].points
    play.job.nodes[1].points = []
    play.answer(0, 1, receivers=(0,))
    play.job.nodes[1].points = late
    play.act("receive", 1)
    play.act("crash", 0)
    play.act("expire", 0)
    play.close()
    return play.job


def begin_below_the_directory(rules: Rules) -> KeepJob:
    """All nodes are replaced. No new node can list the directory, so training begins anew."""
    play = Player(2, rules)
    play.train(0, 1)
    play.commit(0, 1)
    play.act("persist", 0, 1)
    play.act("crash", 0, 1)
    play.act("expire", 0, 1)
    play.act("replace_pod", 0, 1)
    play.act("hide_directory", 0, 1)
    play.act("join", 0, 1)
    play.close()
    return play.job


def restore_a_step_older_than_the_directory(rules: Rules) -> KeepJob:
    """An agent restarts over a volume that has an older step than the directory, which it cannot list."""
    play = Player(2, rules, layout="copies")
    play.train(0, 1)
    play.commit(0, 1)
    play.act("cut_off", 0)
    play.act("expire", 0)
    play.close()
    play.restore(1)
    play.train(1)
    play.commit(1)
    play.commit(1)
    play.act("persist", 1)
    play.act("crash", 1)
    play.act("expire", 1)
    play.act("heal", 0)
    play.act("restart_agent", 0)
    play.act("hide_directory", 0)
    play.act("join", 0)
    play.close()
    return play.job


def lose_all_but_a_node_with_an_old_list(rules: Rules) -> Player:
    """Let a node without a place in the rounds list the directory once; let the others persist more, and be lost."""
    play = Player(3, rules, late=1)
    play.job.wanted = 2
    play.train(0, 1)
    play.commit(0, 1)
    play.act("persist", 0, 1)
    play.act("join", 2)
    play.train(0, 1)
    play.commit(0, 1)
    play.act("persist", 0, 1)
    play.act("crash", 0, 1)
    play.act("expire", 0, 1)
    return play


def trust_an_old_list(rules: Rules) -> KeepJob:
    """That node cannot list the directory when it forms the next round."""
    play = lose_all_but_a_node_with_an_old_list(rules)
    play.act("hide_directory", 2)
    play.close()
    return play.job


def close_before_a_node_knows(rules: Rules) -> KeepJob:
    """The leader closes the next round before that node has seen that it forms."""
    play = lose_all_but_a_node_with_an_old_list(rules)
    play.job.lead()
    play.job.close()
    return play.job


def lose_the_newest_persisted_step(rules: Rules) -> KeepJob:
    """Two rounds persist a step each. The newer one is restored, and removed from the directory by hand."""
    play = Player(2, rules)
    for _ in range(2):
        play.train(0, 1)
        play.commit(0, 1)
        play.commit(0, 1)
        play.act("persist", 0, 1)
        play.act("list_directory", 0, 1)
        play.act("fail_worker", 0)
        play.close()
        play.restore(0, 1)
    for _ in range(2):
        play.act("crash", 0, 1)
        play.act("expire", 0, 1)
        play.act("replace_pod", 0, 1)
        play.act("join", 0, 1)
        play.close()
        play.act("list_directory", 0, 1)
        play.close()
        play.restore(0, 1)
        play.job.damage_directory()
    return play.job


def remove_a_step_that_is_ahead(rules: Rules) -> KeepJob:
    """A new run begins with the last step of an earlier one, which began anew below the step of a run before."""
    last = PersistedStep("other", KeptStep(Lineage(90, "other"), 1, 1))
    ahead = PersistedStep("before", KeptStep(Lineage(70, "before"), 5, 1))
    play = Player(1, rules, other_runs=(ahead, last), persist_keep=1)
    play.train(0)
    play.commit(0)
    play.act("persist", 0)
    return play.job


def remove_a_newer_step_than_that_of_a_spare_node(rules: Rules) -> KeepJob:
    """A node has no place any more, and keeps its step in memory. Each later round persists a newer one."""
    play = Player(3, rules, layout="copies", highest=4, persist_keep=3)
    play.job.wanted = 2
    for _ in range(4):
        play.train(0, 1, 2)
        play.commit(0, 1, 2)
        play.commit(0, 1, 2)
        play.act("persist", 0, 1)
        play.act("list_directory", 0, 1)
        play.answer(0, 1, receivers=(0, 1))
        play.act("fail_worker", 0)
        play.close()
        play.restore(0, 1)
    return play.job


def remove_a_step_though_the_round_is_over(rules: Rules) -> KeepJob:
    """A node is cut off from etcd and its peers, and completes a step in the directory. The next round has another."""
    play = Player(2, rules, persist_keep=1)
    for _ in range(2):
        play.train(0, 1)
        play.commit(0, 1)
        play.act("list_directory", 0, 1)
        if not play.job.persisted:
            play.act("persist", 0, 1)
    play.act("cut_off", 0)
    play.act("crash", 1)
    play.act("expire", 0, 1)
    play.act("replace_pod", 1)
    play.act("join", 1)
    play.job.wanted = 1
    for _ in range(2):
        play.close()
        play.act("list_directory", 1)
    play.act("persist", 0)
    return play.job


History = Callable[[Rules], KeepJob]


def list_a_step_after_ready(rules: Rules) -> KeepJob:
    """A node finds the newest persisted step when it is ready for the next round. The others are lost then."""
    play = Player(2, rules, copies=0)
    play.act("list_directory", 1)
    play.train(0, 1)
    play.commit(0, 1)
    play.act("persist", 1, 0)
    play.act("fail_worker", 1)
    play.act("report_ready", 1)
    play.act("list_directory", 1)
    play.act("crash", 0)
    play.act("expire", 0)
    play.job.close()
    return play.job


HISTORIES: dict[int, tuple[History, str]] = {
    1: (mix_two_rounds, "G1"),
    2: (drop_before_a_commit, "G4"),
    3: (skip_a_step_for_ever, "G9"),
    4: (change_the_leader, "G5"),
    5: (commit_without_copies, "G5"),
    6: (write_holdings_late, "G4"),
    7: (fall_back_alone, "G3"),
    8: (revive_a_branch, "G6"),
    9: (remember_a_struck_commit, "G6"),
    10: (forget_an_idle_node, "G4"),
    11: (offer_a_struck_step, "G6"),
    12: (publish_into_another_round, "G2"),
    14: (raise_the_floor_too_far, "G5"),
    15: (drop_an_announced_step, "G5"),
    16: (commit_a_step_without_room, "G5"),
    17: (supersede_an_announced_step, "G5"),
    18: (take_a_skipped_step, "G5"),
    19: (begin_below_the_directory, "G11"),
    20: (restore_a_step_older_than_the_directory, "G11"),
    21: (trust_an_old_list, "G11"),
    22: (close_before_a_node_knows, "G11"),
    23: (lose_the_newest_persisted_step, "G11"),
    24: (remove_a_step_that_is_ahead, "G15"),
    25: (remove_a_newer_step_than_that_of_a_spare_node, "G15"),
    26: (remove_a_step_though_the_round_is_over, "G15"),
    27: (list_a_step_after_ready, "G11"),
}
cases = pytest.mark.parametrize(
    ("number", "history", "broken"),
    [(number, history, broken) for number, (history, broken) in HISTORIES.items()],
    ids=[f"{number}: {history.__name__.replace('_', ' ')}" for number, (history, _) in HISTORIES.items()],
)


@cases
def test_a_first_design_breaks_a_guarantee(number: int, history: History, broken: str) -> None:
    with pytest.raises(Violation, match=f"^{broken} "):
        history(FIRST_DESIGNS[number]).settle()


@cases
def test_the_same_history_breaks_nothing_with_the_right_rules(number: int, history: History, broken: str) -> None:
    del number, broken
    history(Rules()).settle()


def test_each_first_design_has_a_history() -> None:
    assert HISTORIES.keys() == FIRST_DESIGNS.keys()


def test_13_holdings_have_a_key_of_their_own_because_released_agents_read_node_records_strictly() -> None:
    node = records.NodeRecord(pod="a", pod_uid="b", lease=1, host="c", address="d", nproc=1)
    value = codec.write(node)
    with pytest.raises(CodecError):
        codec.read(records.NodeRecord, {**value, "held": "k1"})
    released = {"pod", "podUid", "lease", "host", "address", "nproc", "role", "masterPort", "linkPort", "ready"}
    assert value.keys() <= released | {"leaving", "topology"}
    keys = Keys("p")
    assert not keys.holdings(0, "00000000").startswith(keys.nodes)
