"""One pod: the user's template untouched but for what the operator must set, and the agent before the command."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.spec import Agent, AgentMode, GracefulShutdown
from elasticjob_operator.errors import RenderError
from elasticjob_operator.model.revision import Revision, template_hash
from elasticjob_operator.render.pod import render_pod
from testing.builders import SETTINGS, job, template

PROVIDED = Agent(mode=AgentMode.PROVIDED)


def rendered(slot: int = 3, **spec: Any) -> dict[str, Any]:
    return render_pod(job(**spec), slot=slot, name=f"j-{slot}-abcde", settings=SETTINGS)


def trainer(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = rendered(**spec)["spec"]["containers"][0]
    return found


def with_pod(**fields: Any) -> dict[str, Any]:
    """A template whose pod spec has these fields too."""
    made = template()
    made["spec"] |= fields
    return made


def test_a_pod_is_named_labelled_and_owned_as_the_map_says() -> None:
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


def test_a_pod_is_of_the_revision_that_is_given_whatever_the_operators_setting_is_now() -> None:
    old = Revision("0123456789", "agent:old")
    pod = render_pod(job(), slot=0, name="j-0-a", settings=SETTINGS, revision=old)
    assert pod["metadata"]["labels"]["elasticjob.io/template-hash"] == "0123456789"
    assert pod["metadata"]["annotations"]["elasticjob.io/agent-image"] == "agent:old"
    assert pod["spec"]["initContainers"][0]["image"] == "agent:old"


def test_a_pod_with_an_agent_of_its_own_has_no_image_of_one() -> None:
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
def test_a_pod_has_a_service_accounts_token_only_if_its_template_asks_for_one(
    fields: dict[str, Any], mounted: object
) -> None:
    assert rendered(template=with_pod(**fields))["spec"].get("automountServiceAccountToken") is mounted


def test_labels_and_annotations_of_the_template_pass_through() -> None:
    given = {"labels": {"team": "a"}, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
    meta = rendered(template={**template(), "metadata": given})["metadata"]
    assert meta["annotations"].items() >= given["annotations"].items()
    assert meta["labels"]["team"] == "a"
    assert meta["labels"]["elasticjob.io/slot"] == "3"


def test_nothing_else_of_the_templates_metadata_does() -> None:
    """A finalizer would keep every pod for ever, and a resourceVersion would keep any from being created."""
    given = {"resourceVersion": "7", "finalizers": ["a.b/c"], "generateName": "x-", "uid": "u", "ownerReferences": []}
    meta = rendered(template={**template(), "metadata": given})["metadata"]
    assert set(meta) == {"name", "namespace", "labels", "annotations", "ownerReferences"}
    assert set(meta["annotations"]) == {"elasticjob.io/agent-image"}
    assert [owner["kind"] for owner in meta["ownerReferences"]] == ["ElasticJob"]


def test_a_label_of_the_template_cannot_claim_another_slot() -> None:
    given = {"labels": {"elasticjob.io/slot": "9", "elasticjob.io/job-uid": "other"}}
    labels = rendered(template={**template(), "metadata": given})["metadata"]["labels"]
    assert (labels["elasticjob.io/slot"], labels["elasticjob.io/job-uid"]) == ("3", "job-uid")


def test_fields_that_nobody_here_knows_reach_the_pod() -> None:
    fields = {
        "schedulerName": "volcano",
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
        "imagePullSecrets": [{"name": "s"}],
        "fieldOfTomorrow": {"deep": [1]},
    }
    pod = rendered(template=with_pod(**fields))["spec"]
    assert {name: pod[name] for name in fields} == fields


def test_fields_of_the_trainer_that_nobody_here_knows_reach_it() -> None:
    fields = {"resources": {"limits": {"nvidia.com/gpu": "2"}}, "workingDir": "/x", "fieldOfTomorrow": 1}
    container = trainer(template=template(**fields))
    assert {name: container[name] for name in fields} == fields


def test_the_jobs_own_template_is_not_changed() -> None:
    given = template(args=["--x"], env=[{"name": "A", "value": "1"}])
    before = copy.deepcopy(given)
    rendered(template=given)["spec"]["containers"][0]["env"].append("spoilt")
    assert given == before


def test_the_agent_runs_the_command_with_its_arguments() -> None:
    container = trainer(template=template(args=["--lr", "0.1"]))
    assert container["command"] == [
        "/opt/elasticjob/bin/elasticjob-agent", "--pod", "--", "python", "train.py", "--lr", "0.1"
    ]  # fmt: skip
    assert "args" not in container


def test_a_provided_agent_is_found_on_the_path_of_the_image() -> None:
    assert trainer(agent=PROVIDED)["command"][:3] == ["elasticjob-agent", "--pod", "--"]


def test_a_sidecar_is_left_as_it_is() -> None:
    sidecar = {"name": "sidecar", "image": "x", "command": ["sh"], "env": []}
    given = template()
    given["spec"]["containers"].append(sidecar)
    assert rendered(template=given)["spec"]["containers"][1] == sidecar


def test_the_agent_is_put_into_the_container_that_trains_wherever_it_is() -> None:
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
def test_the_kubelet_waits_longer_than_the_workers_are_given(own: int | None, grace_s: float, expected: int) -> None:
    fields = {} if own is None else {"terminationGracePeriodSeconds": own}
    pod = rendered(template=with_pod(**fields), graceful_shutdown=GracefulShutdown(seconds=grace_s))["spec"]
    assert pod["terminationGracePeriodSeconds"] == expected


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


def test_a_template_that_clashes_with_ours_is_refused() -> None:
    with pytest.raises(RenderError, match=r"volumes\[0\]\.name: names that begin with elasticjob- are reserved"):
        rendered(template=with_pod(volumes=[{"name": "elasticjob-logs", "emptyDir": {}}]))


def test_explicit_nulls_of_a_template_read_as_absent() -> None:
    pod = rendered(template=with_pod(volumes=None, initContainers=None, terminationGracePeriodSeconds=None))["spec"]
    assert pod["terminationGracePeriodSeconds"] == 40
    assert [each["name"] for each in pod["initContainers"]] == ["elasticjob-inject"]


def avoiding(*nodes: str, **fields: Any) -> dict[str, Any]:
    made = render_pod(job(template=with_pod(**fields)), slot=0, name="j-0-a", settings=SETTINGS, avoided=nodes)
    found: dict[str, Any] = made["spec"].get("affinity") or {}
    return found


def test_nodes_to_avoid_are_a_wish_beside_what_the_template_says_of_placement() -> None:
    own = {"podAffinity": {"x": 1}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"y": 2}}}
    made = avoiding("a", "b", affinity=own)
    assert made["podAffinity"] == {"x": 1}
    assert made["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {"y": 2}
    wishes = made["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [wish["preference"]["matchFields"][0]["values"] for wish in wishes] == [["a"], ["b"]]


def test_without_nodes_to_avoid_the_placement_is_the_templates() -> None:
    assert avoiding() == {}
    assert avoiding(affinity={"x": 1}) == {"x": 1}


@pytest.mark.parametrize(
    ("own", "expected"), [([], ["ours"]), ([{"name": "mine"}], ["mine", "ours"]), ([{"name": "ours"}], ["ours"])]
)
def test_the_agents_image_is_pulled_with_its_own_secret(own: list[dict[str, str]], expected: list[str]) -> None:
    settings = replace(SETTINGS, agent_image_pull_secrets=("ours",))
    of = job(template=with_pod(imagePullSecrets=own))
    pod = render_pod(of, slot=0, name="j-0-a", settings=settings)["spec"]
    assert [secret["name"] for secret in pod["imagePullSecrets"]] == expected


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({}, None),
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
    ],
)
def test_a_pod_in_the_hosts_network_still_finds_etcd_by_its_name(fields: dict[str, Any], policy: str | None) -> None:
    assert rendered(template=with_pod(**fields))["spec"].get("dnsPolicy") == policy
