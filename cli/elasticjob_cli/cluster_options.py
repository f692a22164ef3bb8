"""Connection to a cluster: the options that commands share, and the SDK's cluster for them.

The SDK and its libraries are imported when a command connects, never for a help page.
"""

import argparse
from typing import TYPE_CHECKING, Any

from elasticjob_cli.errors import CliError

if TYPE_CHECKING:
    from elasticjob import Cluster, ElasticJob


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add `-n`, `--context` and `--kubeconfig`, with the meaning that they have for kubectl."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "-n", "--namespace", default="", metavar="NAMESPACE", help="namespace (default: that of the context)"
    )
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    group.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig (default: $KUBECONFIG, ~/.kube/config)")


def add_job(parser: argparse.ArgumentParser, *, recorded: bool = False) -> None:
    """Add the argument for a job; with `recorded` it may be the folder of a run."""
    help_text = "name of a job, or folder of a run (runs/...)" if recorded else "name of a job"
    parser.add_argument("job", metavar="JOB", help=help_text)


def connect(arguments: argparse.Namespace) -> "Cluster":
    """Return the cluster for the options; send no request yet."""
    from elasticjob import Cluster  # noqa: PLC0415  # see the module

    return Cluster.connect(kubeconfig=arguments.kubeconfig, context=arguments.context, namespace=arguments.namespace)


def get_job(arguments: argparse.Namespace, cluster: "Cluster | None" = None) -> "ElasticJob":
    """Return the job of the argument; NoSuchJob suggests another name or namespace."""
    from elasticjob import ElasticJob  # noqa: PLC0415  # see the module
    from elasticjob.errors import NotFound  # noqa: PLC0415  # see the module

    found = cluster or connect(arguments)
    name = plain_name(arguments.job)
    try:
        return ElasticJob.get(name, cluster=found)
    except NotFound as error:
        raise NoSuchJob(_no_such_job(name, found)) from error


def plain_name(text: str) -> str:
    """Return the name without its kind: digits for `ejob/digits`, as kubectl and `get -o name` print it."""
    kind, _, name = text.rpartition("/")
    return name if kind.partition(".")[0].lower() in {"ejob", "elasticjob", "elasticjobs"} else text


class NoSuchJob(CliError):
    """The namespace has no job of this name."""


def _no_such_job(name: str, cluster: "Cluster") -> str:
    from elasticjob import ALL_NAMESPACES, ElasticJob  # noqa: PLC0415  # see the module
    from elasticjob.errors import ClusterError  # noqa: PLC0415  # see the module

    message = f"there is no job {name} in the namespace {cluster.namespace}"
    try:
        jobs = ElasticJob.list(namespace=ALL_NAMESPACES, cluster=cluster)
    except ClusterError:  # as a rule, no permission for all namespaces
        return f"{message}; `elasticjob get` lists its jobs, -n selects another namespace"
    elsewhere = [job.namespace for job in jobs if job.name == name]
    if elsewhere:
        return f"{message}, but there is one in {', '.join(elsewhere)}; use -n {elsewhere[0]}"
    return f"{message}{_similar(name, [job.name for job in jobs if job.namespace == cluster.namespace])}"


def _similar(name: str, others: list[str]) -> str:
    import difflib  # noqa: PLC0415  # only an error needs it

    close = difflib.get_close_matches(name, others, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return "; `elasticjob get -A` lists all jobs"


def query(**given: Any) -> dict[str, Any]:
    """Return the parameters of a request, without those that are None."""
    return {name: value for name, value in given.items() if value is not None}
