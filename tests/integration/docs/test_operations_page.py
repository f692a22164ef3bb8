"""docs/operations.md and docs/cli.md: their commands, typed with a real operator and a running job."""

import json
import re
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from testing.servers.apiserver import Programs
from tests.integration.docs.conftest import with_cluster
from tests.integration.docs.typed import output_of, typed
from tests.unit.docs.commands import ROOT

pytestmark = pytest.mark.kube
Type = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def type_(rig: KubeStack, programs: Programs) -> Type:
    """Return a function that types a command, with the running job `j` of one node."""
    rig.start_node()
    rig.start_operator()
    rig.create_job(waiting_job(rig, replicas=1, minReplicas=1, maxReplicas=2))
    rig.running(1, 1)
    environ = with_cluster(programs, rig.namespace.server.kubeconfig(namespace=rig.namespace.name))
    return lambda command, **values: typed(command, rig.folder, values, environ=environ)


def test_the_objects_that_the_pages_show_exist(rig: KubeStack, type_: Type) -> None:
    assert output_of(type_("kubectl get ejob -o wide")).splitlines()[1].split()[:2] == ["j", "Running"]
    assert output_of(type_("kubectl get pdb")).splitlines()[1].split()[:3] == ["j", "1", "N/A"]
    assert output_of(type_("kubectl get ejob j -o jsonpath={.status.lastFailure}")) == ""
    events = (
        "kubectl get events --sort-by=.lastTimestamp -o custom-columns=REASON:.reason,COUNT:.count,MESSAGE:.message"
    )
    rig.until("the first round's event", lambda: "RendezvousCompleted" in output_of(type_(events)))
    assert "j is running" in output_of(type_("elasticjob describe digits", digits="j"))
    assert "CRD               elasticjobs.elasticjob.io/v1alpha1" in output_of(type_("elasticjob doctor"), code=1)


def test_a_job_is_restarted_suspended_and_resumed_with_another_template_as_written(rig: KubeStack, type_: Type) -> None:
    output_of(type_("kubectl annotate ejob j elasticjob.io/restart=$(date +%s) --overwrite"))
    rig.running(1, 2)
    output_of(type_("""kubectl patch ejob j --type=merge -p '{"spec":{"suspend":true}}'"""))
    output_of(type_("kubectl wait ejob/j --for=condition=Suspended --timeout=10m"))
    selector = '"template":{"spec":{"nodeSelector":{"pool":"b"}}}'
    output_of(type_("kubectl patch ejob j --type=merge -p '" + '{"spec":{"suspend":false,' + selector + "}}'"))
    rig.running(1, 3)
    (pod,) = rig.pod_names()
    assert json.loads(rig.namespace.kubectl("get", "pod", pod, "-o", "json"))["spec"]["nodeSelector"] == {"pool": "b"}


def test_the_commands_in_the_table_of_the_page_change_a_job(rig: KubeStack, type_: Type) -> None:
    assert output_of(type_("elasticjob get")).splitlines()[1].split()[:2] == ["j", "Running"]
    assert rig.namespace.name in output_of(type_("elasticjob get -A -o wide"))
    output_of(type_("elasticjob restart digits", digits="j"))
    rig.running(1, 2)
    output_of(type_("elasticjob scale digits --replicas 8", **{"digits": "j", "8": "2"}))
    assert rig.job()["spec"]["replicas"] == 2
    output_of(type_("elasticjob suspend digits", digits="j"))
    rig.phase("Suspended")
    output_of(type_("elasticjob resume digits", digits="j"))
    assert rig.job()["spec"]["suspend"] is False
    assert "serverside-applied" in output_of(type_("elasticjob crd | kubectl apply --server-side -f -"))


def test_the_commands_in_the_table_of_the_page_work_without_a_job(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "migrating-from-pytorchjob.md").read_text()
    before, after, *_ = (block for block in re.findall(r"(?:^    .*\n|^\n)+", page, re.MULTILINE) if block.strip())
    (tmp_path / "pytorchjob.yaml").write_text(textwrap.dedent(before))
    text = output_of(typed("elasticjob convert pytorchjob.yaml", tmp_path))
    assert text.strip().endswith(textwrap.dedent(after).strip())  # the notes are on stderr, too
    assert "complete" in output_of(typed("elasticjob completion bash", tmp_path))
