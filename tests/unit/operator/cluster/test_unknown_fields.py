"""Fields that an older CRD does not declare are left out of a status, and no others."""

from typing import Any

from elasticjob_operator.cluster.unknown_fields import UnknownFields

PREFIX = "failed to create typed patch object (team/j; elasticjob.io/v1alpha1, Kind=ElasticJob): "
STATUS: dict[str, Any] = {
    "message": "m",
    "lastFailure": {"exitCode": 1, "stderrTail": "Traceback"},
    "nodes": [{"name": "j-0", "cpuPercent": 5}, {"name": "j.1"}],
}


def message(*paths: str) -> str:
    if len(paths) == 1:
        return f"{PREFIX}{paths[0]}: field not declared in schema"
    return f"{PREFIX}errors:\n" + "\n".join(f"  {path}: field not declared in schema" for path in paths)


def left_out(*paths: str) -> dict[str, Any]:
    undeclared = UnknownFields()
    undeclared.learn(message(*paths))
    return dict(undeclared.without_unknown(STATUS))


def test_a_field_of_the_status_is_left_out() -> None:
    assert left_out(".status.message") == {name: STATUS[name] for name in ("lastFailure", "nodes")}


def test_only_the_nested_field_is_left_out() -> None:
    assert left_out(".status.lastFailure.stderrTail") == {**STATUS, "lastFailure": {"exitCode": 1}}


def test_a_field_of_one_item_is_left_out_of_all_items() -> None:
    nodes = [{"name": "j-0"}, {"name": "j.1"}]
    assert left_out('.status.nodes[name="j-0"].cpuPercent') == {**STATUS, "nodes": nodes}


def test_an_item_may_be_named_with_a_dot() -> None:
    assert left_out('.status.nodes[name="j.1"].cpuPercent')["nodes"] == [{"name": "j-0"}, {"name": "j.1"}]


def test_several_fields_are_learned_from_one_message() -> None:
    undeclared = UnknownFields()
    learned = undeclared.learn(message(".status.message", ".status.lastFailure.stderrTail"))
    assert learned == ["lastFailure.stderrTail", "message"]
    assert undeclared.without_unknown(STATUS) == {"lastFailure": {"exitCode": 1}, "nodes": STATUS["nodes"]}


def test_a_repeated_message_adds_no_field() -> None:
    undeclared = UnknownFields()
    undeclared.learn(message(".status.message"))
    assert undeclared.learn(message(".status.message")) == []


def test_another_message_adds_no_field() -> None:
    assert UnknownFields().learn("PATCH /apis: etcdserver: request timed out (500 InternalError)") == []


def test_forgotten_fields_are_written_again() -> None:
    undeclared = UnknownFields()
    undeclared.learn(message(".status.message"))
    undeclared.forget()
    assert undeclared.without_unknown(STATUS) == STATUS
    assert undeclared.learn(message(".status.message")) == ["message"]


def test_the_given_status_is_not_changed() -> None:
    left_out(".status.lastFailure.stderrTail")
    assert STATUS["lastFailure"] == {"exitCode": 1, "stderrTail": "Traceback"}
