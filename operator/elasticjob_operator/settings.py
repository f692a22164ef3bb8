"""The operator's settings; they do not change while it runs."""

from dataclasses import dataclass

from elasticjob_api.constants import WarmStart


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One installation of the operator."""

    cluster_id: str
    """First element of every key, so that two clusters may share an etcd: by default the uid of kube-system."""
    operator_id: str
    """Id in every spec record; keys of another installation are not changed."""
    etcd_endpoints: tuple[str, ...]
    """`host:port` of etcd as the pods reach it."""
    installation: str = ""
    """Id of this installation: it acts only on jobs that name it or none. Empty: on all jobs that it watches."""
    manager_name: str = ""
    """`spec.managedBy` of jobs that only this installation acts on."""
    agent_image: str = "elasticjob-agent"
    """Image with the agent, for jobs with agent.mode Inject that name none."""
    agent_image_pull_secrets: tuple[str, ...] = ()
    """Names of secrets, in the job's namespace, with which that image is pulled."""
    warm_start: WarmStart = WarmStart.OFF
    """`agent.warmStart` of jobs that do not set it."""
    etcd_tls: bool = False
    """Whether etcd refuses clients without a certificate; each job then has its own."""
    records_memory: int = 128 << 20
    """Bytes of memory for the records of all jobs: a quarter of this process's limit in the chart."""
    status_period_s: float = 1.0
    """Least time between two status writes of one job, so that a thousand jobs do not flood the API server."""
    progress_period_s: float = 30.0
    """Least time between two writes of one job if only progress, cpu or memory changed and there are few jobs."""
    progress_writes_per_s: float = 4.0
    """Limit for such writes of all jobs: progress must cost API server and operator less than the other changes."""

    def progress_interval_s(self, jobs: int) -> float:
        """Return the least time between two writes of one job for progress, cpu and memory, with that many jobs."""
        return max(self.progress_period_s, jobs / self.progress_writes_per_s)
