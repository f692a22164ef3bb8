"""Pods of another template or another installation, and a template with unknown fields."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_operator.model.revision import wanted_revision
from elasticjob_operator.policy.slots.outdated_pods import is_template_unclear, outdated_pods
from testing.builders import SETTINGS, by_name, job, pod

HERE = replace(SETTINGS, installation="here")
WANTED = wanted_revision(job(), HERE)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"template_hash": WANTED.template_hash}, False),
        ({"template_hash": ""}, False),  # created by an operator that set no label
        ({"template_hash": "old"}, True),
        ({"template_hash": "old", "terminating": True}, False),  # its deletion was requested
        ({"template_hash": "old", "phase": "Failed"}, False),
        ({"template_hash": WANTED.template_hash, "installation": "another"}, True),
    ],
)
def test_a_live_pod_of_another_template_or_installation_is_outdated(fields: dict[str, Any], *, expected: bool) -> None:
    found = outdated_pods(job(), by_name(pod(0, **fields)), HERE, WANTED)
    assert bool(found) is expected


@pytest.mark.parametrize(
    ("path", "unclear"), [("spec.template.spec.new", True), ("spec.agent.new", True), ("spec.newThing", False)]
)
def test_no_pod_is_outdated_by_a_template_with_unknown_fields(path: str, *, unclear: bool) -> None:
    of = replace(job(), unknown_fields=(path,))
    assert is_template_unclear(of) is unclear
    assert bool(outdated_pods(of, by_name(pod(0, template_hash="old")), HERE, WANTED)) is not unclear
