"""The most likely mistakes of a new user, with the parts of the message that each must get: the fault and the cure.

`test_mistakes.py` and `test_mistakes_on_a_cluster.py` make each mistake with the real program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GOOD: Mapping[str, Any] = {
    "apiVersion": "elasticjob.io/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "digits"},
    "spec": {
        "replicas": 2,
        "minReplicas": 1,
        "maxReplicas": 4,
        "template": {"spec": {"containers": [{"name": "trainer", "image": "digits:1", "command": ["true"]}]}},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake: the command line, and the expected message."""

    name: str
    typed: Sequence[str]
    expected: Sequence[str]
    """Parts of the message, in this order; the last is the cure."""
    code: int = 2
    text: str | None = None
    """Content of the file job.yaml; None for no file."""
    environ: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the name."""
        return self.name


RUN = ("run", "job.yaml")
_TEMPLATE = "{spec: {containers: [{name: trainer, image: digits:1, command: ['true']}]}}"


def text(**spec: str) -> str:
    """Return a manifest with these additional fields in its spec."""
    fields = "".join(f"  {name}: {value}\n" for name, value in {"template": _TEMPLATE, **spec}.items())
    return f"apiVersion: elasticjob.io/v1alpha1\nkind: ElasticJob\nmetadata: {{name: digits}}\nspec:\n{fields}"


def pod(containers: str) -> str:
    """Return a manifest with these containers."""
    return text(template=f"{{spec: {{containers: [{containers}]}}}}")


HERE: Sequence[Mistake] = (
    Mistake(
        name="the manifest is not there",
        typed=RUN,
        expected=("job.yaml: there is no such file", "give the path of a manifest"),
    ),
    Mistake(name="the manifest is empty", typed=RUN, text="", expected=("is empty", "it must contain one ElasticJob")),
    Mistake(
        name="a tab in YAML",
        typed=RUN,
        text="apiVersion: elasticjob.io/v1alpha1\nkind: ElasticJob\nspec:\n\treplicas: 2\n",
        expected=("job.yaml:4: is not YAML", "\\t", "check indentation, colons and quotes there"),
    ),
    Mistake(
        name="two documents in a file",
        typed=RUN,
        text=text() + "---\n" + text(),
        expected=("a second document begins here", "move the other documents to their own files"),
    ),
    Mistake(
        name="a misspelt field",
        typed=RUN,
        text=text(replica="3"),
        expected=("job.yaml:6: spec.replica: unknown field", "did you mean replicas?"),
    ),
    Mistake(
        name="a field in the wrong place",
        typed=RUN,
        text=text() + "maxRestarts: 3\n",
        expected=("job.yaml:6: maxRestarts: unknown field", "it belongs into spec"),
    ),
    Mistake(
        name="a wrong apiVersion",
        typed=RUN,
        text=text().replace("v1alpha1", "v1"),
        expected=("job.yaml:1: apiVersion: is 'elasticjob.io/v1'", "it must be elasticjob.io/v1alpha1"),
    ),
    Mistake(
        name="another system's job",
        typed=RUN,
        text=text().replace("kind: ElasticJob", "kind: PyTorchJob"),
        expected=("kind: is 'PyTorchJob'", "it must be ElasticJob"),
    ),
    Mistake(
        name="no command in the template",
        typed=RUN,
        text=pod("{name: trainer, image: 'digits:1'}"),
        expected=(
            "spec.template.spec.containers[0].command: is required",
            "the entry point of an image cannot be known",
        ),
    ),
    Mistake(
        name="a command that is a text and not a list",
        typed=RUN,
        text=pod("{name: trainer, image: 'digits:1', command: python train.py}"),
        expected=(
            "spec.template.spec.containers[0].command: is 'python train.py'; it must be a list",
            "[python, train.py]",
        ),
    ),
    Mistake(
        name="fewer nodes wanted than minReplicas",
        typed=RUN,
        text=text(replicas="1", minReplicas="2", maxReplicas="4"),
        expected=("spec.replicas: is 1", "it must be from 2 (minReplicas) to 4 (maxReplicas)"),
    ),
    Mistake(
        name="a number as a text",
        typed=RUN,
        text=text(nprocPerNode='"two"'),
        expected=("spec.nprocPerNode: 'two'", "it must be a whole number, 1 or more, or auto"),
    ),
    Mistake(
        name="a word that YAML reads as false",
        typed=RUN,
        text=text(agent="{warmStart: Off}"),
        expected=("job.yaml:6: spec.agent.warmStart: False", "YAML reads Off without quotes as false", 'write "Off"'),
    ),
    Mistake(
        name="a size of kept steps without a unit that exists",
        typed=RUN,
        text=text(keep="{sizeLimit: 8GB}"),
        expected=("job.yaml:6: spec.keep.sizeLimit: is '8GB'", "it must be a quantity above 0, as 8Gi"),
    ),
    Mistake(
        name="a volume that only a cluster has",
        typed=RUN,
        text=text(
            template="{spec: {containers: [{name: t, image: i, command: ['true']}],"
            " volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}"
        ),
        expected=("persistentVolumeClaim", "emptyDir"),
    ),
    Mistake(
        name="no etcd for a local run",
        typed=(*RUN, "--etcd-binary", "/no/such/etcd"),
        text=text(),
        code=124,
        expected=("etcd binary /no/such/etcd is not an executable file", "pip install 'elasticjob[local]'"),
    ),
    Mistake(
        name="a misspelt command",
        typed=("descirbe", "digits"),
        expected=("invalid choice: 'descirbe'", "did you mean describe?"),
    ),
    Mistake(name="no job named", typed=("logs",), expected=("required: JOB", "see `elasticjob logs -h`")),
    Mistake(
        name="scaled to nothing",
        typed=("scale", "digits", "--replicas", "0"),
        expected=("'0' must be a whole number, 1 or more", "`elasticjob suspend` deletes all pods"),
    ),
    Mistake(
        name="nnodes the wrong way round",
        typed=("convert", "--", "torchrun", "--nnodes", "4:2", "train.py"),
        expected=("--nnodes 4:2", "MIN must be at least 1 and at most MAX"),
    ),
    Mistake(
        name="a manifest that cannot be converted",
        typed=("convert", "job.yaml"),
        text=text(),
        expected=("is already an ElasticJob of elasticjob.io", "use `kubectl apply -f`"),
    ),
    Mistake(
        name="a folder that is no run",
        typed=("timeline", "runs/digits"),
        expected=("runs/digits: is not the folder of a run", "give a folder in runs/, or the name of a job"),
    ),
    Mistake(
        name="no kubeconfig",
        typed=("get",),
        environ={"KUBECONFIG": "nowhere.yaml"},
        code=124,
        expected=("nowhere.yaml", "set $KUBECONFIG to a kubeconfig"),
    ),
)
"""Mistakes on any machine."""

ON_A_CLUSTER: Sequence[Mistake] = (
    Mistake(
        name="a job that there is not",
        typed=("describe", "digitz"),
        code=1,
        expected=("there is no job digitz in the namespace", "did you mean digits?"),
    ),
    Mistake(
        name="the wrong namespace",
        typed=("logs", "digits", "-n", "default"),
        code=1,
        expected=("there is no job digits in the namespace default, but there is one in test-", "use -n test-"),
    ),
    Mistake(
        name="a context that there is not",
        typed=("get", "--context", "prod"),
        code=124,
        expected=("no context prod in ", "`kubectl config get-contexts` lists the contexts"),
    ),
    Mistake(
        name="more nodes than maxReplicas",
        typed=("scale", "digits", "--replicas", "9"),
        code=1,
        expected=(
            "cannot scale the job digits to 9: it must have 1 to 4 nodes",
            "scale within these limits, or change them",
        ),
    ),
    Mistake(
        name="the failure of a job that has none",
        typed=("logs", "digits", "--failed"),
        code=1,
        expected=("digits has no failed worker", "leave out --failed"),
    ),
)
"""Mistakes on a cluster that has a job `digits`."""
