"""When a member of etcd enables authentication before it serves, and what the mark beside its data is worth."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from elasticjob_etcd import auth_bootstrap, member_bootstrap
from elasticjob_etcd.member_bootstrap import MemberAddress, MemberCommand, Tls
from elasticjob_etcd.member_policy import Answer, Empty, ListedMember, NoAnswer, Running

URLS = [f"http://h{i}:2380" for i in range(3)]
VOTERS = (ListedMember("m1", URLS[1], is_learner=False), ListedMember("m2", URLS[2], is_learner=False))
JOINS = Running((*VOTERS, ListedMember("", URLS[0], is_learner=True)))
REMOVED = Running(VOTERS)
BEGIN, FORCE, TIMEOUT = "--initial-cluster-token=", "--force-new-cluster", "--timeout=120"


class _Served(Exception):
    """The program became etcd."""


class Site:
    """The first of three members; the others answer as a test wishes."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "etcd"
        self.mark = folder / "auth-enabled"
        self.answer: Answer | list[Answer] = NoAnswer()
        self.code = 0
        self.enabled: list[list[str]] = []

    def ask(self, _other: MemberAddress, _tls: Tls | None) -> Answer:
        return self.answer.pop(0) if isinstance(self.answer, list) else self.answer

    def enable(self, arguments: Sequence[str], _environment: Mapping[str, str]) -> int:
        assert not self.mark.exists()
        self.enabled.append(list(arguments))
        return self.code

    def receive_data(self) -> None:
        wal = self.data / "member" / "wal" / "0.wal"
        wal.parent.mkdir(parents=True)
        wal.touch()

    def start(self) -> list[str]:
        """Start the member, and return with which arguments it enabled authentication first."""
        self.enabled = []
        members = [f"--member=m{i}={url},h{i}:2379" for i, url in enumerate(URLS)]
        known = ["--name=m0", *members, f"--data-dir={self.data}", "--enable-auth=root"]
        with contextlib.suppress(_Served):
            assert member_bootstrap.main([*known, "--", "etcd"], {}) == self.code
        return [] if not self.enabled else self.enabled[-1]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    monkeypatch.setattr(member_bootstrap, "query_member", made.ask)
    monkeypatch.setattr(member_bootstrap, "_exec", _become)
    monkeypatch.setattr(member_bootstrap, "_answering", _answering)
    monkeypatch.setattr(auth_bootstrap, "main", made.enable)
    return made


def _become(_command: list[str], _environment: Mapping[str, str]) -> None:
    raise _Served


@contextlib.contextmanager
def _answering(_member: MemberCommand) -> Iterator[None]:
    yield


def has(arguments: list[str], flag: str) -> bool:
    return any(argument.startswith(flag) for argument in arguments)


@pytest.mark.parametrize("received", [False, True], ids=["nothing", "a WAL"])
def test_after_a_join_that_received_no_users_authentication_is_enabled(site: Site, *, received: bool) -> None:
    site.answer = JOINS
    assert not site.start()
    site.answer = Empty()
    if received:
        site.receive_data()
    assert has(site.start(), FORCE if received else BEGIN)
    assert site.mark.exists()


@pytest.mark.parametrize("received", [False, True], ids=["begins", "goes on alone"])
def test_authentication_that_was_not_enabled_to_the_end_is_enabled_at_the_next_start(
    site: Site, *, received: bool
) -> None:
    site.mark.touch()
    site.answer, site.code = Empty(), 1
    if received:
        site.receive_data()
    site.start()
    if not received:
        site.receive_data()
    site.answer, site.code = NoAnswer(), 0
    assert has(site.start(), TIMEOUT)


def test_the_mark_goes_with_the_data_that_are_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.receive_data()
    site.mark.touch()
    site.answer = [REMOVED, REMOVED, JOINS, JOINS]
    monkeypatch.setattr(Path, "touch", lambda _path: None)
    site.start()
    assert not site.mark.exists()


def test_what_starts_on_its_data_waits_for_a_majority_for_two_minutes(site: Site) -> None:
    site.receive_data()
    assert has(site.start(), TIMEOUT)
    assert not site.start()


def test_what_begins_or_goes_on_alone_needs_no_majority_and_waits_for_its_own_data(site: Site) -> None:
    site.answer = Empty()
    assert not has(site.start(), TIMEOUT)
    site.receive_data()
    assert not has(site.start(), TIMEOUT)


def test_a_member_that_joined_starts_without_a_majority(site: Site) -> None:
    """It may have no vote, and the only one that has must see that it is a learner."""
    site.answer = JOINS
    site.start()
    site.receive_data()
    site.answer = NoAnswer()
    assert not site.start()


def test_data_that_were_never_started_here_are_started_as_they_are_before_they_go_on_alone(site: Site) -> None:
    """They may be a single member's; force would drop its newest writes."""
    site.receive_data()
    site.answer, site.code = Empty(), 1
    assert not has(site.start(), FORCE)
    assert has(site.start(), FORCE)
