"""What an older CRD does not know is left out of a status, and nothing beside it."""

from typing import Any

from elasticjob_operator.cluster.unknown_fields import UnknownFields

PREFIX = "failed to create typed patch object (team/j; elasticjob.io/v1alpha1, Kind=ElasticJob): "
STATUS: dict[str, Any] = {
    "message": "m",
    "lastFailure": {"exitCode": 1, "stderrTail": "Traceback"},
    "nodes": [{"name": "j-0", "cpuPercent": 5}, {"name": "j.1"}],
}


def complaint(*paths: str) -> str:
    if len(paths) == 1:
        return f"{PREFIX}{paths[0]}: field not declared in schema"
    return f"{PREFIX}errors:\n" + "\n".join(f"  {path}: field not declared in schema" for path in paths)


def left_out(*paths: str) -> dict[str, Any]:
    undeclared = UnknownFields()
    undeclared.learn(complaint(*paths))
    return dict(undeclared.without_unknown(STATUS))


def test_a_field_of_the_status_goes() -> None:
    assert left_out(".status.message") == {name: STATUS[name] for name in ("lastFailure", "nodes")}


def test_of_a_nested_field_only_that_goes() -> None:
    assert left_out(".status.lastFailure.stderrTail") == {**STATUS, "lastFailure": {"exitCode": 1}}


def test_a_field_of_one_item_goes_from_all() -> None:
    nodes = [{"name": "j-0"}, {"name": "j.1"}]
    assert left_out('.status.nodes[name="j-0"].cpuPercent') == {**STATUS, "nodes": nodes}


def test_an_item_may_be_named_with_a_dot() -> None:
    assert left_out('.status.nodes[name="j.1"].cpuPercent')["nodes"] == [{"name": "j-0"}, {"name": "j.1"}]


def test_several_complaints_are_learned_at_once() -> None:
    undeclared = UnknownFields()
    said = undeclared.learn(complaint(".status.message", ".status.lastFailure.stderrTail"))
    assert said == ["lastFailure.stderrTail", "message"]
    assert undeclared.without_unknown(STATUS) == {"lastFailure": {"exitCode": 1}, "nodes": STATUS["nodes"]}


def test_the_same_complaint_is_no_news() -> None:
    undeclared = UnknownFields()
    undeclared.learn(complaint(".status.message"))
    assert undeclared.learn(complaint(".status.message")) == []


def test_another_complaint_says_nothing() -> None:
    assert UnknownFields().learn("PATCH /apis: etcdserver: request timed out (500 InternalError)") == []


def test_what_was_forgotten_is_said_again() -> None:
    undeclared = UnknownFields()
    undeclared.learn(complaint(".status.message"))
    undeclared.forget()
    assert undeclared.without_unknown(STATUS) == STATUS
    assert undeclared.learn(complaint(".status.message")) == ["message"]


def test_the_status_itself_stays_as_it_was() -> None:
    left_out(".status.lastFailure.stderrTail")
    assert STATUS["lastFailure"] == {"exitCode": 1, "stderrTail": "Traceback"}
