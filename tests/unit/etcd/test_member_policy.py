"""How one member of etcd starts: the rules by which one cluster never becomes two."""

import pytest

from elasticjob_etcd.member_policy import (
    Action,
    Answer,
    Empty,
    Learner,
    ListedMember,
    NoAnswer,
    Own,
    Running,
    decide,
)

URLS = {name: f"http://{name}:2380" for name in ("m0", "m1", "m2")}


def own(number: int = 0, *, has_data: bool = False) -> Own:
    return Own(f"m{number}", URLS[f"m{number}"], is_first=number == 0, has_data=has_data)


def runs(*voters: str, unstarted: str = "", learner: str = "") -> Running:
    members = [ListedMember(name, URLS[name], is_learner=False) for name in voters]
    members += [ListedMember("", URLS[unstarted], is_learner=True)] if unstarted else []
    members += [ListedMember(learner, URLS[learner], is_learner=True)] if learner else []
    return Running(tuple(members))


ALL = runs("m0", "m1", "m2")
WITH_ME = runs("m1", "m2", unstarted="m0")


@pytest.mark.parametrize(
    ("others", "action"),
    [
        pytest.param((Empty(), Empty()), Action.BOOTSTRAP, id="nobody has data"),
        pytest.param((Empty(), NoAnswer()), Action.WAIT, id="silence proves nothing"),
        pytest.param((NoAnswer(), NoAnswer()), Action.WAIT, id="cut off"),
        pytest.param((Empty(), Learner()), Action.WAIT, id="a learner has data"),
        pytest.param((ALL, ALL), Action.WAIT, id="not removed yet"),
        pytest.param((runs("m1", "m2"), runs("m1", "m2")), Action.WAIT, id="not added yet"),
        pytest.param((WITH_ME, WITH_ME), Action.JOIN, id="added"),
        pytest.param((WITH_ME, NoAnswer()), Action.WAIT, id="one of two is no majority"),
        pytest.param((WITH_ME, ALL), Action.WAIT, id="they disagree"),
        pytest.param((runs("m1", unstarted="m0"), Empty()), Action.JOIN, id="the only voter has added it"),
        pytest.param((runs("m1", "m2", learner="m0"),) * 2, Action.WAIT, id="its learner had started once"),
    ],
)
def test_the_first_member_without_data(others: tuple[Answer, Answer], action: Action) -> None:
    assert decide(own(), dict(zip(("m1", "m2"), others, strict=True))).action is action


def test_only_the_first_member_begins_a_cluster() -> None:
    assert decide(own(1), {"m0": Empty(), "m2": Empty()}).action is Action.WAIT


@pytest.mark.parametrize(
    ("others", "action"),
    [
        pytest.param((NoAnswer(), NoAnswer()), Action.START, id="cut off"),
        pytest.param((Empty(), NoAnswer()), Action.START, id="the one that is silent may have data"),
        pytest.param((Empty(), Empty()), Action.FORCE, id="nobody else has data"),
        pytest.param((Empty(), Learner()), Action.FORCE, id="nobody else has data and a vote"),
        pytest.param((NoAnswer(), Learner()), Action.START, id="the silent one may have data and a vote"),
        pytest.param((ALL, ALL), Action.START, id="a member"),
        pytest.param((WITH_ME, WITH_ME), Action.START, id="it had not published its name when it ended"),
        pytest.param((runs("m1", "m2"), runs("m1", "m2")), Action.DISCARD, id="removed by a majority"),
        pytest.param((runs("m1", "m2"), NoAnswer()), Action.START, id="missing on a minority's list"),
    ],
)
def test_a_member_with_data(others: tuple[Answer, Answer], action: Action) -> None:
    assert decide(own(has_data=True), dict(zip(("m1", "m2"), others, strict=True))).action is action


def test_who_joins_is_given_the_whole_list_with_its_own_name() -> None:
    cluster = decide(own(), {"m1": WITH_ME, "m2": WITH_ME}).initial_cluster
    assert dict(cluster) == URLS
