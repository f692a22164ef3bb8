"""`ElasticJob`: a job on a cluster, with a few methods for its whole life.

    job = ElasticJob.from_yaml("job.yaml").create()
    job.wait(phase="Running", timeout_s=120)
    job.scale(8)
    job.wait()

It has the object as last read, unchanged. Each method that sends a request keeps the response. It decides nothing that
operator or agent decide. Only one thread at a time may use an object.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from elasticjob import manifests
from elasticjob.cluster import Cluster, jobs_path
from elasticjob.errors import ElasticJobError, JobGone, NotFound, Rejected, Unreachable, WaitTimeout
from elasticjob.lenient_codec import read_known
from elasticjob.log_stream import follow_logs
from elasticjob.logs import LogLine, Source, read_logs
from elasticjob.streams import CancelToken
from elasticjob.wait_conditions import WaitCondition, has_ended, is_reached, unreachable_reason, wait_condition
from elasticjob.watch import changes
from elasticjob_api.constants import ANNOTATION_RESTART, ConditionType, Phase
from elasticjob_api.job import trainer_container
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import JobStatus

_ID_BYTES = 4


def _fresh_id() -> str:
    return secrets.token_hex(_ID_BYTES)


class ElasticJob:
    """One job. `from_yaml`, `from_text` or `from_dict` and then `create()` make one; `get` and `list` read it."""

    def __init__(self, manifest: Mapping[str, Any], cluster: Cluster | None = None) -> None:
        self._object: dict[str, Any] = dict(manifest)
        self._cluster = cluster

    # --- constructors - --------------------------------------------------------------------------------------

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> "ElasticJob":
        """Return the only job in a file; raise InvalidJob with every fault. No request is sent."""
        return cls(manifests.read_file(Path(path)))

    @classmethod
    def from_text(cls, text: str) -> "ElasticJob":
        """Return the only job in a text of YAML or JSON; raise InvalidJob."""
        return cls(manifests.read_text(text))

    @classmethod
    def from_dict(cls, manifest: Mapping[str, Any]) -> "ElasticJob":
        """Return a job with a copy of this manifest; raise InvalidJob."""
        return cls(manifests.validate(manifest))

    @classmethod
    def get(cls, name: str, *, namespace: str = "", cluster: Cluster | None = None) -> "ElasticJob":
        """Return a job of the cluster; raise NotFound.

        Args:
            name: the name of the job.
            namespace: its namespace; empty for the default of the cluster.
            cluster: the cluster; None for `Cluster.connect()`.
        """
        found = cluster or Cluster.connect()
        path = jobs_path(namespace or found.namespace, name)
        return cls(found.request("GET", path, tried=f"get the job {name}"), found)

    @classmethod
    def list(
        cls, *, namespace: str | None = None, labels: Mapping[str, str] | None = None, cluster: Cluster | None = None
    ) -> tuple["ElasticJob", ...]:
        """Return the jobs with these labels in a namespace, by name (None: the default, `ALL_NAMESPACES`: all)."""
        found = cluster or Cluster.connect()
        selector = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        path = jobs_path(found.namespace if namespace is None else namespace)
        query = {"labelSelector": selector} if selector else None
        listed = found.request("GET", path, tried="list jobs", query=query)
        kinds = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        return tuple(cls({**kinds, **item}, found) for item in listed["items"])

    # --- properties -----------------------------------------------------------------------------------------

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The object as last read, or as it will be created."""
        return self._object

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self._object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The namespace of the job; empty if neither the manifest nor a cluster names one."""
        return str(self._object["metadata"].get("namespace") or (self._cluster.namespace if self._cluster else ""))

    @property
    def uid(self) -> str:
        """The uid, which differs between jobs of the same name; empty before the job is created."""
        return str(self._object["metadata"].get("uid") or "")

    @property
    def spec(self) -> JobSpec:
        """The requested state."""
        return read_known(JobSpec, self._object.get("spec"), "spec")

    @property
    def status(self) -> JobStatus:
        """The status as last read; `refresh()` reads it again."""
        return read_known(JobStatus, self._object.get("status"), "status")

    @property
    def phase(self) -> Phase | str:
        """The phase as in `kubectl get`; plain text if this version does not know it."""
        return self.status.phase

    def __repr__(self) -> str:
        return f"<ElasticJob {self.namespace or '?'}/{self.name}: {self.phase if self.uid else 'not created'}>"

    # --- methods ---------------------------------------------------------------------------------------------

    def create(self, *, cluster: Cluster | None = None) -> "ElasticJob":
        """Create the job; raise AlreadyExists if the name is in use, Rejected for a field that breaks a rule."""
        self._cluster = cluster or self._cluster or Cluster.connect()
        body = manifests.without_status(self._object)
        # As with kubectl, the context has the namespace for a manifest without one.
        self._object = self._cluster.request(
            "POST",
            jobs_path(self.namespace),
            tried=f"create the job {self.name}",
            query={"fieldValidation": "Strict"},
            body=body,
        )
        return self

    def refresh(self) -> "ElasticJob":
        """Read the job again; raise JobGone if it was deleted, or replaced by another of that name."""
        try:
            found = self._require_cluster().request("GET", self._path, tried=f"get the job {self.name}")
        except NotFound as error:
            raise self._raise_deleted() from error
        return self._store(found)

    def scale(self, replicas: int) -> "ElasticJob":
        """Set the number of nodes; raise Rejected outside of minReplicas and maxReplicas."""
        try:
            return self._patch({"spec": {"replicas": replicas}}, f"scale the job {self.name} to {replicas}")
        except Rejected as error:
            least, most = self.spec.min_replicas, self.spec.max_replicas
            if least is None or most is None or least <= replicas <= most:
                raise
            limits = f"it must have {least} to {most} nodes (spec.minReplicas, spec.maxReplicas)"
            raise Rejected(
                f"cannot scale the job {self.name} to {replicas}: {limits}; scale within these limits, or change them"
            ) from error

    def suspend(self) -> "ElasticJob":
        """Delete its pods, after the workers could save; `resume()` continues the job."""
        return self._patch({"spec": {"suspend": True}}, f"suspend the job {self.name}")

    def resume(self) -> "ElasticJob":
        """Continue a suspended job."""
        return self._patch({"spec": {"suspend": False}}, f"resume the job {self.name}")

    def restart(self, *, new_id: Callable[[], str] = _fresh_id) -> "ElasticJob":
        """Restart all workers once, gracefully; it does not count as a failure."""
        return self._patch(
            {"metadata": {"annotations": {ANNOTATION_RESTART: new_id()}}}, f"restart the job {self.name}"
        )

    def delete(self) -> None:
        """Delete the job and its pods. It is no error if it is gone; another job of its name is not deleted."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if self.uid:
            body["preconditions"] = {"uid": self.uid}
        try:
            self._require_cluster().request("DELETE", self._path, tried=f"delete the job {self.name}", body=body)
        except NotFound:
            return

    def wait(
        self,
        *,
        phase: Phase | str | None = None,
        condition: ConditionType | str | None = None,
        timeout_s: float | None = None,
    ) -> "ElasticJob":
        """Wait until the job is in this phase or has this condition; without either, until it has succeeded.

        While the API server is away, the method continues to wait.

        Args:
            phase: one of `Phase`.
            condition: a `ConditionType`, with "=False" or "=Unknown" after it if not True is meant.
            timeout_s: seconds; None for no limit.

        Raises:
            JobFailed: the job failed, and the caller did not wait for that; `status` has the reason.
            CannotHappen: the job ended otherwise.
            JobGone: the job was deleted.
            WaitTimeout: the time limit was reached.
        """
        goal = wait_condition(phase, condition)
        cluster, until = self._require_cluster(), time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        late = f"job {self.name} did not reach {goal} within {timeout_s or 0:g} s"
        try:
            for found in changes(cluster, self.namespace, self.name, until=until, stop=CancelToken()):
                if found is None:
                    raise self._raise_deleted()
                if self._has_reached(goal, found):
                    return self
        except Unreachable as error:
            raise WaitTimeout(f"{late}; its last state is unknown: {error}") from error
        now = self.status
        reason = f", {now.reason}: {now.message}" if now.reason else ""
        raise WaitTimeout(f"{late}; it is {now.phase}{reason}")

    def logs(self, *, rank: int | None = None, follow: bool = False, tail: int | None = None) -> Iterator[LogLine]:
        """Return the output of workers, line by line: of one rank, or of all pods in order of time.

        Args:
            rank: the present global rank; None for every pod, with the lines of the agents.
            follow: continue with new lines, also of pods that replace lost ones, until the job has ended.
            tail: only this many last lines, of the rank or of each pod; when following, of each pod's earlier output.
                None for all lines that the node has.

        Raises:
            NoLogs: no pod has the rank, or no pod of the job has a log.
        """
        self.refresh()
        source = Source(self._require_cluster(), self.namespace, str(trainer_container(self.spec)["name"]))
        if not follow:
            return read_logs(source, self.name, self.status, rank=rank, tail=tail)
        return follow_logs(source, self._statuses, rank=rank, tail=tail)

    # --- helpers ----------------------------------------------------------------------------------------------

    def _has_reached(self, condition: WaitCondition, found: dict[str, Any]) -> bool:
        """Return whether the condition is reached; raise if it never can be."""
        status = self._store(found).status
        if (error := unreachable_reason(condition, self.name, status)) is not None:
            raise error
        return is_reached(condition, status)

    def _statuses(self, stop: CancelToken) -> Iterator[JobStatus]:
        """Yield the status after each change, until the job has ended or was deleted."""
        for found in changes(self._require_cluster(), self.namespace, self.name, until=math.inf, stop=stop):
            if found is None or found["metadata"]["uid"] != self.uid:
                return
            status = read_known(JobStatus, found.get("status"), "status")
            yield status
            if has_ended(status):
                return

    @property
    def _path(self) -> str:
        return jobs_path(self.namespace, self.name)

    def _require_cluster(self) -> Cluster:
        if self._cluster is None:
            raise ElasticJobError(f"the job {self.name} is not on a cluster: call create(), or read it with get()")
        return self._cluster

    def _patch(self, change: Mapping[str, Any], tried: str) -> "ElasticJob":
        try:
            return self._store(self._require_cluster().request("PATCH", self._path, tried=tried, body=change))
        except NotFound as error:
            raise self._raise_deleted() from error

    def _store(self, found: dict[str, Any]) -> "ElasticJob":
        if self.uid and found["metadata"]["uid"] != self.uid:
            raise self._raise_deleted()
        self._object = found
        return self

    def _raise_deleted(self) -> JobGone:
        return JobGone(f"the job {self.name} (uid {self.uid}) in namespace {self.namespace} was deleted")
