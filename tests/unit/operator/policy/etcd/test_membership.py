"""The members of etcd: single steps, and whole histories of three members by their own rules and the operator's."""

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.strategies import booleans, integers

from elasticjob_etcd.member_policy import (
    Action,
    Answer,
    Decision,
    Empty,
    Learner,
    ListedMember,
    NoAnswer,
    Own,
    Running,
    decide,
)
from elasticjob_etcd.members import EtcdMember
from elasticjob_operator.policy.etcd.membership import AddLearner, Promote, RemoveMember, Step, Update, next_step

PODS = {f"m{number}": f"http://m{number}:2380" for number in range(3)}


def member(number: int, *, name: str | None = None, learns: bool = False) -> EtcdMember:
    return EtcdMember(number, f"m{number}" if name is None else name, (), (PODS[f"m{number}"],), is_learner=learns)


A, B, C = member(0), member(1), member(2)
ALONE = replace(A, peer_urls=("http://127.0.0.1:2380",))
"""A single member, which no other member has to reach."""


@pytest.mark.parametrize(
    ("members", "empty", "step"),
    [
        pytest.param((A, B, C), set(), None, id="whole"),
        pytest.param((A, B, C), {"m1"}, RemoveMember(B), id="its data are lost"),
        pytest.param((A, C), {"m1"}, AddLearner("m1", PODS["m1"]), id="removed"),
        pytest.param((A, C), set(), None, id="not there yet"),
        pytest.param((A, member(1, name="", learns=True), C), {"m1"}, None, id="it will join"),
        pytest.param((A, member(1, learns=True), C), set(), Promote(member(1, learns=True)), id="it has joined"),
        pytest.param(
            (A, member(1, learns=True), C), {"m1"}, RemoveMember(member(1, learns=True)), id="lost while it learns"
        ),
        pytest.param(
            (A, member(1, name=""), C), {"m1"}, RemoveMember(member(1, name="")), id="a vote that never started"
        ),
        pytest.param((A,), {"m1", "m2"}, AddLearner("m1", PODS["m1"]), id="one at a time"),
        pytest.param((A, member(1, name="", learns=True)), {"m1", "m2"}, None, id="etcd takes one learner at a time"),
        pytest.param((A, B, C), {"foreign"}, None, id="not of ours"),
        pytest.param((ALONE,), {"m1", "m2"}, Update(ALONE, PODS["m0"]), id="it was the only one"),
        pytest.param((ALONE,), set(), Update(ALONE, PODS["m0"]), id="it was the only one, and still is"),
        pytest.param((replace(ALONE, name="other"),), set(), None, id="the only one is not of ours"),
        pytest.param((ALONE, B, C), set(), None, id="others reach it at that URL"),
    ],
)
def test_the_next_step(members: tuple[EtcdMember, ...], empty: set[str], step: Step | None) -> None:
    assert next_step(members, PODS, empty) == step


@dataclass
class Pod:
    """The pod of one member.

    `data` are its cluster's number and its own id there. `knows` is the last member list that it has applied.
    """

    number: int
    data: tuple[int, int] | None = None
    knows: tuple[EtcdMember, ...] = ()
    is_up: bool = False
    runs: bool = False
    is_cut: bool = False

    @property
    def is_empty(self) -> bool:
        return self.is_up and not self.runs and not self.is_cut and self.data is None


@dataclass
class Servers:
    """Three pods, and the members of each cluster that ever existed, as its majority agreed on them."""

    pods: list[Pod] = field(default_factory=lambda: [Pod(number) for number in range(3)])
    clusters: dict[int, tuple[EtcdMember, ...]] = field(default_factory=dict)
    stuck: set[int] = field(default_factory=set)

    def alive(self, cluster: int) -> list[Pod]:
        """Return the pods of this cluster that can reach each other."""
        ids = {member.id for member in self.clusters[cluster]}
        return [
            p for p in self.pods if p.runs and not p.is_cut and p.data and p.data[0] == cluster and p.data[1] in ids
        ]

    def has_quorum(self, cluster: int) -> bool:
        voters = {member.id for member in self.clusters[cluster] if not member.is_learner}
        there = {pod.data[1] for pod in self.alive(cluster) if pod.data}
        return 2 * len(voters & there) > len(voters)

    def agree(self, cluster: int, members: tuple[EtcdMember, ...]) -> None:
        self.clusters[cluster] = members
        self.spread()

    def spread(self) -> None:
        for cluster, members in self.clusters.items():
            if self.has_quorum(cluster):
                for pod in self.alive(cluster):
                    pod.knows = members

    def answers(self, asking: Pod) -> dict[str, Answer]:
        return {f"m{pod.number}": self._answer(asking, pod) for pod in self.pods if pod is not asking}

    def _answer(self, asking: Pod, pod: Pod) -> Answer:
        if asking.is_cut or pod.is_cut or not pod.is_up:
            return NoAnswer()
        if pod.runs and pod.data in [(pod.data[0], m.id) for m in pod.knows if m.is_learner and pod.data]:
            return Learner()
        if pod.runs:
            return Running(tuple(ListedMember(m.name, m.peer_urls[0], m.is_learner) for m in pod.knows))
        return Empty() if pod.is_empty else NoAnswer()


class Members(RuleBasedStateMachine):
    """Pods are killed, lose their data and are cut off at any time; the operator checks at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.servers = Servers()
        self.ids = itertools.count(1)

    @initialize(was_alone=booleans())
    def install(self, *, was_alone: bool) -> None:
        """Start three pods without data, or the first with data of the time when it was the only member."""
        if was_alone:
            cluster, own = next(self.ids), replace(ALONE, id=next(self.ids))
            self.servers.clusters[cluster] = (own,)
            self.servers.pods[0] = Pod(0, data=(cluster, own.id), knows=(own,))
        for pod in self.servers.pods:
            pod.is_up = True
        for _ in range(12):
            self.all_continue()

    @rule()
    def all_continue(self) -> None:
        for number in range(3):
            self.start(number)
        self.operator_checks()

    @rule(number=integers(0, 2))
    def start(self, number: int) -> None:
        """Start a container, or let its program query the others once more."""
        self.servers.pods[number].is_up = True
        self.decide(number)

    def decide(self, number: int) -> None:
        pod = self.servers.pods[number]
        if pod.is_up and not pod.runs:
            name = f"m{number}"
            own = Own(name, PODS[name], is_first=number == 0, has_data=pod.data is not None)
            self.act(pod, decide(own, self.servers.answers(pod)))
            self.servers.spread()

    def act(self, pod: Pod, decision: Decision) -> None:
        others = [other for other in self.servers.pods if other is not pod]
        match decision.action:
            case Action.START:
                pod.runs = True
            case Action.BOOTSTRAP:
                assert not any(other.data for other in self.servers.pods), "another pod had data"
                cluster, own = next(self.ids), self.named(pod, next(self.ids))
                self.servers.clusters[cluster] = (own,)
                pod.data, pod.knows, pod.runs = (cluster, own.id), (own,), True
            case Action.FORCE:
                voters = {m.id for members in self.servers.clusters.values() for m in members if not m.is_learner}
                assert not any(other.data and other.data[1] in voters for other in others), (
                    "another had data and a vote"
                )
                self.force(pod)
            case Action.JOIN:
                self.join(pod)
            case Action.DISCARD:
                assert pod.data is not None
                assert pod.data[1] not in {member.id for member in self.servers.clusters[pod.data[0]]}, (
                    "it was a member"
                )
                pod.data = None
            case Action.WAIT:
                pass

    def named(self, pod: Pod, number: int, *, learns: bool = False) -> EtcdMember:
        name = f"m{pod.number}"
        return EtcdMember(number, name, (), (PODS[name],), is_learner=learns)

    def force(self, pod: Pod) -> None:
        assert pod.data is not None
        cluster, own = pod.data
        known = next((member for member in pod.knows if member.id == own), None)
        if known is None or known.is_learner:  # etcd cannot: the member has no vote
            pod.is_up = False
            self.servers.stuck.add(pod.number)
            return
        self.servers.clusters[cluster] = pod.knows = (known,)
        pod.runs = True

    def join(self, pod: Pod) -> None:
        url = PODS[f"m{pod.number}"]
        reachable = [other for other in self.servers.pods if other.runs and not other.is_cut]
        cluster = next(other.data[0] for other in reachable if other.data)
        entry = next(member for member in self.servers.clusters[cluster] if url in member.peer_urls)
        assert (entry.name, entry.is_learner) == ("", True), "an id that had started before joined without its data"
        pod.data, pod.knows, pod.runs = (cluster, entry.id), self.servers.clusters[cluster], True
        started = self.named(pod, entry.id, learns=True)
        if self.servers.has_quorum(cluster):
            members = self.servers.clusters[cluster]
            self.servers.agree(cluster, tuple(started if member.id == entry.id else member for member in members))

    @rule(number=integers(0, 2))
    def kill(self, number: int) -> None:
        pod = self.servers.pods[number]
        pod.is_up = pod.runs = False

    @rule(number=integers(0, 2))
    def lose(self, number: int) -> None:
        """Remove the pod and its volume; another pod replaces it."""
        self.servers.pods[number] = Pod(number, is_cut=self.servers.pods[number].is_cut)
        self.servers.stuck.discard(number)

    @rule(number=integers(0, 2))
    def cut_or_heal(self, number: int) -> None:
        self.servers.pods[number].is_cut = not self.servers.pods[number].is_cut
        self.servers.spread()

    @rule()
    def operator_checks(self) -> None:
        whole = [cluster for cluster in self.servers.clusters if self.servers.has_quorum(cluster)]
        if not whole:
            return
        (cluster,) = whole
        members = self.servers.clusters[cluster]
        empty = {f"m{pod.number}" for pod in self.servers.pods if pod.is_empty}
        match next_step(members, PODS, empty):
            case RemoveMember(doomed):
                self.servers.agree(cluster, tuple(member for member in members if member.id != doomed.id))
            case AddLearner(_, url):
                self.servers.agree(cluster, (*members, EtcdMember(next(self.ids), "", (), (url,), is_learner=True)))
            case Update(moved, url):
                self.servers.agree(cluster, (replace(moved, peer_urls=(url,)),))
            case Promote(learner) if learner.id in {pod.data[1] for pod in self.servers.alive(cluster) if pod.data}:
                voter = replace(learner, is_learner=False)
                self.servers.agree(cluster, tuple(voter if member.id == learner.id else member for member in members))
            case _:
                pass

    @invariant()
    def at_most_one_cluster_can_decide(self) -> None:
        assert sum(map(self.servers.has_quorum, self.servers.clusters)) <= 1

    def teardown(self) -> None:
        """Check that three members with a vote exist once all faults have ended."""
        for number in sorted(self.servers.stuck):  # docs/etcd.md: the one row that needs an administrator
            self.lose(number)
        for pod in self.servers.pods:
            pod.is_cut = False
            pod.is_up = True
        for _ in range(30):
            for number in range(3):
                self.decide(number)
            self.operator_checks()
            self.restart_without_leader()
        (cluster,) = (cluster for cluster in self.servers.clusters if self.servers.has_quorum(cluster))
        assert [member.is_learner for member in self.servers.clusters[cluster]] == [False] * 3
        assert len(self.servers.alive(cluster)) == 3

    def restart_without_leader(self) -> None:
        """Restart pods without a leader, as the liveness probes do."""
        led = [
            pod
            for number in self.servers.clusters
            if self.servers.has_quorum(number)
            for pod in self.servers.alive(number)
        ]
        # One after the other, since each kubelet counts by itself: two that restart together get no answers.
        for pod in self.servers.pods:
            pod.is_up = True
            if pod not in led:
                pod.runs = False
                self.decide(pod.number)
        for number in sorted(self.servers.stuck):
            self.lose(number)
            self.servers.pods[number].is_up = True


TestMembers = pytest.mark.timeout(3600)(Members.TestCase)  # the number of steps limits it, not the clock
TestMembers.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
