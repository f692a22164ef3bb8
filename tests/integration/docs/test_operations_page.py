"""docs/operations.md and docs/cli.md, typed beside a real operator with a job that runs."""

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
from tests.integration.docs.typed import said, typed
from tests.unit.docs.commands import ROOT

pytestmark = pytest.mark.kube
Type = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def type_(rig: KubeStack, programs: Programs) -> Type:
    """Somebody who may type, beside the job `j` that runs with one node."""
    rig.start_node()
    rig.start_operator()
    rig.create_job(waiting_job(rig, replicas=1, minReplicas=1, maxReplicas=2))
    rig.running(1, 1)
    environ = with_cluster(programs, rig.namespace.server.kubeconfig(namespace=rig.namespace.name))
    return lambda command, **values: typed(command, rig.folder, values, environ=environ)


def test_what_the_pages_look_at_is_there(rig: KubeStack, type_: Type) -> None:
    assert said(type_("kubectl get ejob -o wide")).splitlines()[1].split()[:2] == ["j", "Running"]
    assert said(type_("kubectl get pdb")).splitlines()[1].split()[:3] == ["j", "1", "N/A"]
    assert said(type_("kubectl get ejob j -o jsonpath={.status.lastFailure}")) == ""
    events = (
        "kubectl get events --sort-by=.lastTimestamp -o custom-columns=REASON:.reason,COUNT:.count,MESSAGE:.message"
    )
    rig.until("the first round's event", lambda: "RendezvousCompleted" in said(type_(events)))
    assert "j is running" in said(type_("elasticjob describe digits", digits="j"))
    assert "CRD               elasticjobs.elasticjob.io/v1alpha1" in said(type_("elasticjob doctor"), code=1)


def test_a_job_is_restarted_suspended_and_resumed_with_another_template_as_written(rig: KubeStack, type_: Type) -> None:
    said(type_("kubectl annotate ejob j elasticjob.io/restart=$(date +%s) --overwrite"))
    rig.running(1, 2)
    said(type_("""kubectl patch ejob j --type=merge -p '{"spec":{"suspend":true}}'"""))
    said(type_("kubectl wait ejob/j --for=condition=Suspended --timeout=10m"))
    selector = '"template":{"spec":{"nodeSelector":{"pool":"b"}}}'
    said(type_("kubectl patch ejob j --type=merge -p '" + '{"spec":{"suspend":false,' + selector + "}}'"))
    rig.running(1, 3)
    (pod,) = rig.pod_names()
    assert json.loads(rig.namespace.kubectl("get", "pod", pod, "-o", "json"))["spec"]["nodeSelector"] == {"pool": "b"}


def test_what_the_table_of_the_command_line_changes(rig: KubeStack, type_: Type) -> None:
    assert said(type_("elasticjob get")).splitlines()[1].split()[:2] == ["j", "Running"]
    assert rig.namespace.name in said(type_("elasticjob get -A -o wide"))
    said(type_("elasticjob restart digits", digits="j"))
    rig.running(1, 2)
    said(type_("elasticjob scale digits --replicas 8", **{"digits": "j", "8": "2"}))
    assert rig.job()["spec"]["replicas"] == 2
    said(type_("elasticjob suspend digits", digits="j"))
    rig.phase("Suspended")
    said(type_("elasticjob resume digits", digits="j"))
    assert rig.job()["spec"]["suspend"] is False
    assert "serverside-applied" in said(type_("elasticjob crd | kubectl apply --server-side -f -"))


def test_what_the_table_of_the_command_line_says_without_a_job(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "migrating-from-pytorchjob.md").read_text()
    before, after, *_ = (block for block in re.findall(r"(?:^    .*\n|^\n)+", page, re.MULTILINE) if block.strip())
    (tmp_path / "pytorchjob.yaml").write_text(textwrap.dedent(before))
    told = said(typed("elasticjob convert pytorchjob.yaml", tmp_path))
    assert told.strip().endswith(textwrap.dedent(after).strip())  # the notes are on stderr, too
    assert "complete" in said(typed("elasticjob completion bash", tmp_path))
