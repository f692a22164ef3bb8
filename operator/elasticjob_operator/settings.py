"""The operator's settings about itself and its surroundings; constant while it runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One installation of the operator."""

    cluster_id: str
    """First element of every key: uid of the kube-system namespace, so that two clusters may share an etcd."""
    operator_id: str
    """Written into every spec record; keys of another installation are never touched."""
    etcd_endpoints: tuple[str, ...]
    """`host:port` of etcd as the pods reach it."""
    installation: str = ""
    """Which installation this is: it acts only on jobs that name it, or none. Empty: on all that it sees."""
    manager_name: str = ""
    """What jobs that only this installation is to act on have as `spec.managedBy`."""
    agent_image: str = "elasticjob-agent"
    """Image of the agent's payload, for jobs with agent.mode Inject that name none."""
    agent_image_pull_secrets: tuple[str, ...] = ()
    """Names of secrets, in the job's namespace, with which that image is pulled."""
    etcd_tls: bool = False
    """Etcd refuses clients without a certificate: each job has one of its own."""
    records_memory: int = 128 << 20
    """Bytes of this process for the records of all jobs: a quarter of what the chart gives it."""
    status_period_s: float = 1.0
    """At most one status write per job in this time: a thousand jobs must not flood the API server."""
    progress_period_s: float = 30.0
    """The same for changes of progress, cpu and memory alone, while there are few jobs."""
    progress_writes_per_s: float = 4.0
    """Of all jobs together: neither API server nor operator should have more to do for progress than for the rest."""

    def progress_interval_s(self, jobs: int) -> float:
        """Between two writes of one job for its progress, cpu and memory alone, when there are so many jobs."""
        return max(self.progress_period_s, jobs / self.progress_writes_per_s)
