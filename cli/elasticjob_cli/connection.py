"""The way to a cluster: the options that all its commands share, and the SDK's cluster that they mean.

The SDK and its libraries are imported when a cluster is asked, never for a help page.
"""

import argparse
from typing import TYPE_CHECKING, Any

from elasticjob_cli.errors import CliError

if TYPE_CHECKING:
    from elasticjob import Cluster, ElasticJob


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """`-n`, `--context`, `--kubeconfig`, as kubectl has them."""
    group = parser.add_argument_group("cluster")
    group.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help="of the job (default: the context's)")
    group.add_argument("--context", metavar="NAME", help="one of the kubeconfig's contexts")
    group.add_argument("--kubeconfig", metavar="FILE", help="instead of $KUBECONFIG, ~/.kube/config")


def add_job(parser: argparse.ArgumentParser, *, recorded: bool = False) -> None:
    """The argument that names a job."""
    what = "name of a job, or the folder of a run (runs/...)" if recorded else "name of a job"
    parser.add_argument("job", metavar="JOB", help=what)


def connect(arguments: argparse.Namespace) -> "Cluster":
    """The cluster that the options mean; nothing is asked of it yet."""
    from elasticjob import Cluster  # noqa: PLC0415  # see the module

    return Cluster.connect(kubeconfig=arguments.kubeconfig, context=arguments.context, namespace=arguments.namespace)


def get_job(arguments: argparse.Namespace, cluster: "Cluster | None" = None) -> "ElasticJob":
    """The job that was named; when there is none, the sentence says where it is instead, if anywhere."""
    from elasticjob import ElasticJob  # noqa: PLC0415  # see the module
    from elasticjob.errors import NotFound  # noqa: PLC0415  # see the module

    found = cluster or connect(arguments)
    name = plain_name(arguments.job)
    try:
        return ElasticJob.get(name, cluster=found)
    except NotFound as error:
        raise NoSuchJob(_no_such_job(name, found)) from error


def plain_name(text: str) -> str:
    """`ejob/digits`, as kubectl and `get -o name` write it, is digits."""
    kind, _, name = text.rpartition("/")
    return name if kind.partition(".")[0].lower() in {"ejob", "elasticjob", "elasticjobs"} else text


class NoSuchJob(CliError):
    """There is no job of this name in this namespace."""


def _no_such_job(name: str, cluster: "Cluster") -> str:
    from elasticjob import ALL_NAMESPACES, ElasticJob  # noqa: PLC0415  # see the module
    from elasticjob.errors import ClusterError  # noqa: PLC0415  # see the module

    said = f"there is no job {name} in the namespace {cluster.namespace}"
    try:
        jobs = ElasticJob.list(namespace=ALL_NAMESPACES, cluster=cluster)
    except ClusterError:  # who may see only one namespace learns only about that one
        return f"{said}; `elasticjob get` lists those that there are, -n names another namespace"
    elsewhere = [job.namespace for job in jobs if job.name == name]
    if elsewhere:
        return f"{said}, but in {', '.join(elsewhere)}; use -n {elsewhere[0]}"
    return f"{said}{_similar(name, [job.name for job in jobs if job.namespace == cluster.namespace])}"


def _similar(name: str, others: list[str]) -> str:
    import difflib  # noqa: PLC0415  # only for this sentence

    close = difflib.get_close_matches(name, others, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return "; `elasticjob get -A` lists those that there are"


def query(**given: Any) -> dict[str, Any]:
    """Parameters of a request, without those that are None."""
    return {name: value for name, value in given.items() if value is not None}
