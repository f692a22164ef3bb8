"""A pod: the user's template, changed only where the operator must, with the agent before the command."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.spec import Agent, AgentMode, GracefulShutdown, Keep
from elasticjob_operator.errors import RenderError
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.model.revision import Revision, template_hash
from elasticjob_operator.render.pod import render_pod
from testing.builders import SETTINGS, job, template

PROVIDED = Agent(mode=AgentMode.PROVIDED)


def rendered(slot: int = 3, **spec: Any) -> dict[str, Any]:
    return render_pod(PodSource(job(**spec), SETTINGS), slot=slot, name=f"j-{slot}-abcde")


def trainer(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = rendered(**spec)["spec"]["containers"][0]
    return found


def with_pod(**fields: Any) -> dict[str, Any]:
    """Return a template whose pod spec also has these fields."""
    made = template()
    made["spec"] |= fields
    return made


def test_a_pod_has_the_name_labels_and_owner_of_its_slot() -> None:
    meta = rendered()["metadata"]
    assert (meta["name"], meta["namespace"]) == ("j-3-abcde", "ns")
    assert meta["labels"] == {
        "elasticjob.io/job-name": "j",
        "elasticjob.io/job-uid": "job-uid",
        "elasticjob.io/slot": "3",
        "elasticjob.io/template-hash": template_hash(job()),
    }
    assert meta["annotations"] == {"elasticjob.io/agent-image": SETTINGS.agent_image}
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ElasticJob", "job-uid", True)


def test_a_pod_has_the_given_revision_whatever_the_operators_setting_is() -> None:
    old = Revision("0123456789", "agent:old")
    pod = render_pod(PodSource(job(), SETTINGS, revision=old), slot=0, name="j-0-a")
    assert pod["metadata"]["labels"]["elasticjob.io/template-hash"] == "0123456789"
    assert pod["metadata"]["annotations"]["elasticjob.io/agent-image"] == "agent:old"
    assert pod["spec"]["initContainers"][0]["image"] == "agent:old"


def test_a_pod_that_provides_the_agent_has_no_agent_image() -> None:
    assert "annotations" not in rendered(agent=PROVIDED)["metadata"]


def test_a_pod_has_a_stable_host_name_in_the_jobs_domain_and_never_restarts_by_itself() -> None:
    pod = rendered()["spec"]
    assert (pod["hostname"], pod["subdomain"], pod["restartPolicy"]) == ("j-3", "j", "Never")


@pytest.mark.parametrize(
    ("fields", "mounted"),
    [
        ({}, False),
        ({"automountServiceAccountToken": None}, False),
        ({"automountServiceAccountToken": True}, True),
        ({"serviceAccountName": "mine"}, None),
        ({"serviceAccountName": "mine", "automountServiceAccountToken": False}, False),
    ],
)
def test_a_pod_has_a_service_account_token_only_if_its_template_requests_one(
    fields: dict[str, Any], mounted: object
) -> None:
    assert rendered(template=with_pod(**fields))["spec"].get("automountServiceAccountToken") is mounted


def test_labels_and_annotations_of_the_template_are_kept() -> None:
    given = {"labels": {"team": "a"}, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
    meta = rendered(template={**template(), "metadata": given})["metadata"]
    assert meta["annotations"].items() >= given["annotations"].items()
    assert meta["labels"]["team"] == "a"
    assert meta["labels"]["elasticjob.io/slot"] == "3"


def test_no_other_metadata_of_the_template_is_kept() -> None:
    """A finalizer would keep every pod for ever, and no pod with a resourceVersion could be created."""
    given = {"resourceVersion": "7", "finalizers": ["a.b/c"], "generateName": "x-", "uid": "u", "ownerReferences": []}
    meta = rendered(template={**template(), "metadata": given})["metadata"]
    assert set(meta) == {"name", "namespace", "labels", "annotations", "ownerReferences"}
    assert set(meta["annotations"]) == {"elasticjob.io/agent-image"}
    assert [owner["kind"] for owner in meta["ownerReferences"]] == ["ElasticJob"]


def test_a_label_of_the_template_cannot_set_another_slot() -> None:
    given = {"labels": {"elasticjob.io/slot": "9", "elasticjob.io/job-uid": "other"}}
    labels = rendered(template={**template(), "metadata": given})["metadata"]["labels"]
    assert (labels["elasticjob.io/slot"], labels["elasticjob.io/job-uid"]) == ("3", "job-uid")


def test_unknown_fields_of_the_pod_are_kept() -> None:
    fields = {
        "schedulerName": "volcano",
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
        "imagePullSecrets": [{"name": "s"}],
        "fieldOfTomorrow": {"deep": [1]},
    }
    pod = rendered(template=with_pod(**fields))["spec"]
    assert {name: pod[name] for name in fields} == fields


def test_unknown_fields_of_the_trainer_are_kept() -> None:
    fields = {"resources": {"limits": {"nvidia.com/gpu": "2"}}, "workingDir": "/x", "fieldOfTomorrow": 1}
    container = trainer(template=template(**fields))
    assert {name: container[name] for name in fields} == fields


def test_the_jobs_own_template_is_not_changed() -> None:
    given = template(args=["--x"], env=[{"name": "A", "value": "1"}])
    before = copy.deepcopy(given)
    rendered(template=given)["spec"]["containers"][0]["env"].append("changed")
    assert given == before


def test_the_agent_runs_the_command_with_its_arguments() -> None:
    container = trainer(template=template(args=["--lr", "0.1"]))
    assert container["command"] == [
        "/opt/elasticjob/bin/elasticjob-agent", "--pod", "--", "python", "train.py", "--lr", "0.1"
    ]  # fmt: skip
    assert "args" not in container


def test_a_provided_agent_is_found_on_the_path_of_the_image() -> None:
    assert trainer(agent=PROVIDED)["command"][:3] == ["elasticjob-agent", "--pod", "--"]


def test_a_sidecar_is_not_changed() -> None:
    sidecar = {"name": "sidecar", "image": "x", "command": ["sh"], "env": []}
    given = template()
    given["spec"]["containers"].append(sidecar)
    assert rendered(template=given)["spec"]["containers"][1] == sidecar


def test_the_agent_runs_in_the_trainer_container_at_any_position() -> None:
    sidecar = {"name": "sidecar", "image": "x"}
    given = template()
    given["spec"]["containers"].insert(0, sidecar)
    first, second = rendered(template=given, trainer_container="trainer")["spec"]["containers"]
    assert first == sidecar
    assert second["command"][-2:] == ["python", "train.py"]


@pytest.mark.parametrize(
    ("own", "grace_s", "expected"),
    [(None, 30.0, 40), (10, 30.0, 40), (600, 30.0, 600), (None, 0.5, 11), (None, 120.0, 130)],
)
def test_the_grace_period_of_the_pod_is_longer_than_that_of_the_workers(
    own: int | None, grace_s: float, expected: int
) -> None:
    fields = {} if own is None else {"terminationGracePeriodSeconds": own}
    pod = rendered(template=with_pod(**fields), graceful_shutdown=GracefulShutdown(seconds=grace_s))["spec"]
    assert pod["terminationGracePeriodSeconds"] == expected


@pytest.mark.parametrize(
    ("keep", "more_s"),
    [
        (Keep(size_limit="1k"), 1),
        (Keep(size_limit="1500M"), 15),
        (Keep(size_limit="64Gi"), 30),
        (Keep(size_limit="64Gi", copies=0), 30),
    ],
)
def test_a_pod_that_keeps_steps_has_more_grace_to_copy_the_last_one(keep: Keep, more_s: int) -> None:
    for own_s, expected_s in ((None, 40), (600, 600)):
        fields = {} if own_s is None else {"terminationGracePeriodSeconds": own_s}
        pod = rendered(template=with_pod(**fields), keep=keep)["spec"]
        assert pod["terminationGracePeriodSeconds"] == expected_s + more_s


@pytest.mark.parametrize("copies", [0, 1])
def test_a_pod_that_persists_steps_has_half_a_minute_for_the_last_one_however_small_it_is(copies: int) -> None:
    shared = template(volumeMounts=[{"name": "shared", "mountPath": "/ckpt"}])
    keep = Keep(size_limit="1500M", copies=copies, persist_to="/ckpt")
    assert rendered(template=shared, keep=keep)["spec"]["terminationGracePeriodSeconds"] == 40 + 30


def test_the_agent_is_copied_before_the_users_own_init_containers_run() -> None:
    own = {"name": "fetch", "image": "x"}
    inits = rendered(template=with_pod(initContainers=[own]))["spec"]["initContainers"]
    assert [each["name"] for each in inits] == ["elasticjob-inject", "fetch"]


def test_with_a_provided_agent_there_is_no_init_container() -> None:
    assert "initContainers" not in rendered(agent=PROVIDED)["spec"]


def test_volumes_and_mounts_of_the_user_come_before_ours() -> None:
    given = template(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    given["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    pod = rendered(template=given)["spec"]
    assert pod["volumes"][0] == {"name": "data", "emptyDir": {}}
    assert pod["containers"][0]["volumeMounts"][0] == {"name": "data", "mountPath": "/data"}


def test_every_mount_of_the_pod_has_its_volume() -> None:
    pod = rendered()["spec"]
    mounted = {m["name"] for c in [*pod["containers"], *pod["initContainers"]] for m in c["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_a_template_with_a_reserved_name_is_rejected() -> None:
    with pytest.raises(RenderError, match=r"volumes\[0\]\.name: names that begin with elasticjob- are reserved"):
        rendered(template=with_pod(volumes=[{"name": "elasticjob-logs", "emptyDir": {}}]))


def test_explicit_nulls_of_a_template_read_as_absent() -> None:
    pod = rendered(template=with_pod(volumes=None, initContainers=None, terminationGracePeriodSeconds=None))["spec"]
    assert pod["terminationGracePeriodSeconds"] == 40
    assert [each["name"] for each in pod["initContainers"]] == ["elasticjob-inject"]


def avoiding(*nodes: str, **fields: Any) -> dict[str, Any]:
    made = render_pod(PodSource(job(template=with_pod(**fields)), SETTINGS, avoided=nodes), slot=0, name="j-0-a")
    found: dict[str, Any] = made["spec"].get("affinity") or {}
    return found


def test_nodes_to_avoid_are_a_preference_added_to_the_templates_affinity() -> None:
    own = {"podAffinity": {"x": 1}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"y": 2}}}
    made = avoiding("a", "b", affinity=own)
    assert made["podAffinity"] == {"x": 1}
    assert made["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {"y": 2}
    preferences = made["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [preference["preference"]["matchFields"][0]["values"] for preference in preferences] == [["a"], ["b"]]


def test_without_nodes_to_avoid_the_affinity_is_the_templates() -> None:
    assert avoiding() == {}
    assert avoiding(affinity={"x": 1}) == {"x": 1}


@pytest.mark.parametrize(
    ("own", "expected"), [([], ["ours"]), ([{"name": "mine"}], ["mine", "ours"]), ([{"name": "ours"}], ["ours"])]
)
def test_the_agents_image_has_its_own_pull_secret(own: list[dict[str, str]], expected: list[str]) -> None:
    settings = replace(SETTINGS, agent_image_pull_secrets=("ours",))
    of = job(template=with_pod(imagePullSecrets=own))
    pod = render_pod(PodSource(of, settings), slot=0, name="j-0-a")["spec"]
    assert [secret["name"] for secret in pod["imagePullSecrets"]] == expected


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({}, None),
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
    ],
)
def test_a_pod_in_the_host_network_can_resolve_the_name_of_etcd(fields: dict[str, Any], policy: str | None) -> None:
    assert rendered(template=with_pod(**fields))["spec"].get("dnsPolicy") == policy
