"""Templates that use reserved names: each is rejected with a message that has the field."""

from typing import Any

import pytest

from elasticjob_api.spec import Keep
from elasticjob_operator.errors import RenderError
from elasticjob_operator.render.validation import validate
from testing.builders import job, template


def with_pod(**fields: Any) -> dict[str, Any]:
    made = template()
    made["spec"] |= fields
    return made


def with_sidecar(**sidecar: Any) -> dict[str, Any]:
    made = template()
    made["spec"]["containers"].append({"name": "sidecar", "image": "x", **sidecar})
    return made


NAME = "elasticjob-x"
AGENT = {"name": "v", "mountPath": "/opt/elasticjob"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (with_pod(volumes=[{"name": NAME}]), f"spec.template.spec.volumes[0].name: .* rename {NAME}"),
        (with_sidecar(name=NAME), f"spec.template.spec.containers[1].name: .* rename {NAME}"),
        (with_pod(initContainers=[{"name": NAME}]), f"spec.template.spec.initContainers[0].name: .* rename {NAME}"),
        (template(ports=[{"name": NAME}]), f"containers[0].ports[0].name: .* rename {NAME}"),
        (template(env=[{"name": "ELASTICJOB_SLOT", "value": "1"}]), "variable ELASTICJOB_SLOT: .* remove it"),
        (template(volumeMounts=[AGENT]), "mountPath /opt/elasticjob is reserved for the operator; mount v elsewhere"),
        (template(volumeMounts=[{"name": "v", "mountPath": "/var/log/elasticjob/"}]), "mountPath /var/log/elasticjob "),
    ],
)  # fmt: skip
def test_the_message_has_the_field_and_the_cure(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RenderError, match=message.replace("[", r"\[").replace("]", r"\]")):
        validate(job(template=given))


def test_the_message_has_all_fields_at_once() -> None:
    given = template(env=[{"name": "ELASTICJOB_A"}, {"name": "ELASTICJOB_B"}])
    with pytest.raises(RenderError, match=r"ELASTICJOB_A.*; .*ELASTICJOB_B"):
        validate(job(template=given))


@pytest.mark.parametrize(
    "given",
    [
        template(),
        template(env=[{"name": "MY_ELASTICJOB_X", "value": "1"}]),
        template(volumeMounts=[{"name": "v", "mountPath": "/var/log"}]),
        with_sidecar(
            env=[{"name": "ELASTICJOB_SLOT", "value": "1"}], volumeMounts=[AGENT]
        ),  # not the trainer container
        with_pod(volumes=[{"name": "elasticjobs"}]),
    ],
)
def test_all_other_templates_are_accepted(given: dict[str, Any]) -> None:
    validate(job(template=given))


@pytest.mark.parametrize(
    "path", ["/var/run/elasticjob/keep", "/var/run/elasticjob/keep/", "/var/run/elasticjob/keep/a"]
)
def test_only_a_job_that_keeps_steps_cannot_mount_a_volume_in_theirs(path: str) -> None:
    given = template(volumeMounts=[{"name": "v", "mountPath": path}])
    with pytest.raises(RenderError, match=r"is the volume of spec\.keep; mount v elsewhere"):
        validate(job(template=given, keep=Keep(size_limit="1Gi")))
    validate(job(template=given))


@pytest.mark.parametrize("path", ["/var/run/elasticjob", "/var/run/elasticjob/keeper"])
def test_a_job_that_keeps_steps_may_mount_volumes_beside_theirs(path: str) -> None:
    given = template(volumeMounts=[{"name": "v", "mountPath": path}])
    validate(job(template=given, keep=Keep(size_limit="1Gi")))
