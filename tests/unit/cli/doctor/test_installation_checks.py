"""The replicas of an operator that repeat each other's work, in the checks of the installation."""

from typing import Any

import pytest

from elasticjob_cli.doctor.installation_checks import is_repeating_work


def deployment(replicas: int | None, *, has_ui: bool = False, **container: Any) -> dict[str, Any]:
    ui = [{"name": "ui", "args": ["--leader-elect"]}] if has_ui else []
    template = {"spec": {"containers": [{"name": "operator", **container}, *ui]}}
    spec = {"template": template} if replicas is None else {"replicas": replicas, "template": template}
    return {"metadata": {"namespace": "n", "name": "o"}, "spec": spec}


@pytest.mark.parametrize(
    ("replicas", "container", "expected"),
    [
        (1, {}, False),
        (None, {}, False),
        (2, {}, True),
        (2, {"args": None, "command": None}, True),
        (2, {"args": ["--lease-name=o"]}, True),
        (2, {"args": ["--leader-elect", "--lease-name=o"]}, False),
        (3, {"command": ["elasticjob-operator", "--leader-elect"]}, False),
    ],
)
def test_several_replicas_repeat_work_unless_they_elect_a_leader(
    replicas: int | None, container: dict[str, Any], *, expected: bool
) -> None:
    assert is_repeating_work(deployment(replicas, **container)) is expected


def test_an_argument_of_another_container_elects_no_leader() -> None:
    assert is_repeating_work(deployment(2, has_ui=True))
