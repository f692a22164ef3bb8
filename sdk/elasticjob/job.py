"""`ElasticJob`: a job on a cluster, in the five or six verbs that people use.

    job = ElasticJob.from_yaml("job.yaml").create()
    job.wait(phase="Running", timeout_s=120)
    job.scale(8)
    job.wait()

It holds the object as it was last seen, exactly; every verb that asks the server keeps the answer. It decides nothing
that operator or agent decide. One object is for one thread at a time.
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
    """One job. Made by `from_yaml`, `from_text` or `from_dict` and then `create()`, or by `get` and `list`."""

    def __init__(self, manifest: Mapping[str, Any], cluster: Cluster | None = None) -> None:
        self._object: dict[str, Any] = dict(manifest)
        self._cluster = cluster

    # --- from somewhere --------------------------------------------------------------------------------------

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> "ElasticJob":
        """The one job in a file; raises InvalidJob with every fault found. Nothing is asked of a cluster."""
        return cls(manifests.read_file(Path(path)))

    @classmethod
    def from_text(cls, text: str) -> "ElasticJob":
        """The one job in a text of YAML or JSON; raises InvalidJob."""
        return cls(manifests.read_text(text))

    @classmethod
    def from_dict(cls, manifest: Mapping[str, Any]) -> "ElasticJob":
        """A job from its manifest, which is copied; raises InvalidJob."""
        return cls(manifests.validate(manifest))

    @classmethod
    def get(cls, name: str, *, namespace: str = "", cluster: Cluster | None = None) -> "ElasticJob":
        """A job of the cluster; raises NotFound.

        Args:
            name: of the job.
            namespace: of the job; the cluster's own when empty.
            cluster: as by `Cluster.connect()` when None.
        """
        found = cluster or Cluster.connect()
        path = jobs_path(namespace or found.namespace, name)
        return cls(found.request("GET", path, tried=f"get the job {name}"), found)

    @classmethod
    def list(
        cls, *, namespace: str | None = None, labels: Mapping[str, str] | None = None, cluster: Cluster | None = None
    ) -> tuple["ElasticJob", ...]:
        """The jobs of a namespace (None: the cluster's own; `ALL_NAMESPACES`: all) that have these labels, by name."""
        found = cluster or Cluster.connect()
        selector = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        path = jobs_path(found.namespace if namespace is None else namespace)
        query = {"labelSelector": selector} if selector else None
        listed = found.request("GET", path, tried="list jobs", query=query)
        kinds = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        return tuple(cls({**kinds, **item}, found) for item in listed["items"])

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The object as it was last seen, or as it will be created."""
        return self._object

    @property
    def name(self) -> str:
        """Of the job."""
        return str(self._object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Of the job; empty as long as neither the manifest nor a cluster has said it."""
        return str(self._object["metadata"].get("namespace") or (self._cluster.namespace if self._cluster else ""))

    @property
    def uid(self) -> str:
        """What tells it from another job of the same name; empty before it is created."""
        return str(self._object["metadata"].get("uid") or "")

    @property
    def spec(self) -> JobSpec:
        """What is wanted."""
        return read_known(JobSpec, self._object.get("spec"), "spec")

    @property
    def status(self) -> JobStatus:
        """How it was when it was last seen; `refresh()` looks again."""
        return read_known(JobStatus, self._object.get("status"), "status")

    @property
    def phase(self) -> Phase | str:
        """The one word of `kubectl get`; a plain text if this version does not know it."""
        return self.status.phase

    def __repr__(self) -> str:
        return f"<ElasticJob {self.namespace or '?'}/{self.name}: {self.phase if self.uid else 'not created'}>"

    # --- verbs -----------------------------------------------------------------------------------------------

    def create(self, *, cluster: Cluster | None = None) -> "ElasticJob":
        """Create it; raises AlreadyExists when the name is taken, Rejected with the field that breaks a rule."""
        self._cluster = cluster or self._cluster or Cluster.connect()
        body = manifests.without_status(self._object)
        # What the manifest has no namespace for goes where the context says, as with kubectl.
        self._object = self._cluster.request(
            "POST",
            jobs_path(self.namespace),
            tried=f"create the job {self.name}",
            query={"fieldValidation": "Strict"},
            body=body,
        )
        return self

    def refresh(self) -> "ElasticJob":
        """Look at it again; raises JobGone when it is not there any more, or is another of that name."""
        try:
            found = self._require_cluster().request("GET", self._path, tried=f"get the job {self.name}")
        except NotFound as error:
            raise self._raise_deleted() from error
        return self._store(found)

    def scale(self, replicas: int) -> "ElasticJob":
        """Want so many nodes; raises Rejected outside of minReplicas and maxReplicas."""
        try:
            return self._patch({"spec": {"replicas": replicas}}, f"scale the job {self.name} to {replicas}")
        except Rejected as error:
            least, most = self.spec.min_replicas, self.spec.max_replicas
            if least is None or most is None or least <= replicas <= most:
                raise
            bound = f"it may have {least} to {most} nodes (spec.minReplicas, spec.maxReplicas)"
            raise Rejected(
                f"cannot scale the job {self.name} to {replicas}: {bound}; scale within, or change those"
            ) from error

    def suspend(self) -> "ElasticJob":
        """Give its pods back; the workers may save first. `resume()` goes on from there."""
        return self._patch({"spec": {"suspend": True}}, f"suspend the job {self.name}")

    def resume(self) -> "ElasticJob":
        """Let a suspended job go on."""
        return self._patch({"spec": {"suspend": False}}, f"resume the job {self.name}")

    def restart(self, *, new_id: Callable[[], str] = _fresh_id) -> "ElasticJob":
        """Restart all workers once, gracefully; it does not count as a failure."""
        return self._patch(
            {"metadata": {"annotations": {ANNOTATION_RESTART: new_id()}}}, f"restart the job {self.name}"
        )

    def delete(self) -> None:
        """Delete it, with its pods; one that is gone already is no error, and another of its name is left alone."""
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
        """Wait until it is in this phase or has this condition; without either, until it has succeeded.

        An API server that is away is waited for.

        Args:
            phase: one of `Phase`.
            condition: a `ConditionType`, with "=False" or "=Unknown" after it unless True is meant.
            timeout_s: seconds; None: for ever.

        Raises:
            JobFailed: it failed, which was not what was waited for; `status` has why.
            CannotHappen: it ended otherwise.
            JobGone: it was deleted.
            WaitTimeout: the time was up.
        """
        aim = wait_condition(phase, condition)
        cluster, until = self._require_cluster(), time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        late = f"job {self.name} did not come to {aim} within {timeout_s or 0:g} s"
        try:
            for found in changes(cluster, self.namespace, self.name, until=until, stop=CancelToken()):
                if found is None:
                    raise self._raise_deleted()
                if self._has_reached(aim, found):
                    return self
        except Unreachable as error:
            raise WaitTimeout(f"{late}, as far as can be seen: {error}") from error
        now = self.status
        why = f", {now.reason}: {now.message}" if now.reason else ""
        raise WaitTimeout(f"{late}; it is {now.phase}{why}")

    def logs(self, *, rank: int | None = None, follow: bool = False, tail: int | None = None) -> Iterator[LogLine]:
        """What the workers wrote, line by line: of one rank, or of all pods in order of time.

        Args:
            rank: global rank as of now; None: every pod, and what the agents themselves say.
            follow: go on as lines come, also with the pods that replace lost ones, until the job has ended.
            tail: only so many lines of the rank, or of each pod; when following, of each pod's past. None: all that
                the node has kept.

        Raises:
            NoLogs: no pod has the rank, or none that was asked has a log.
        """
        self.refresh()
        source = Source(self._require_cluster(), self.namespace, str(trainer_container(self.spec)["name"]))
        if not follow:
            return read_logs(source, self.name, self.status, rank=rank, tail=tail)
        return follow_logs(source, self._statuses, rank=rank, tail=tail)

    # --- inside ----------------------------------------------------------------------------------------------

    def _has_reached(self, condition: WaitCondition, found: dict[str, Any]) -> bool:
        """Whether it is there; raises when it will never be."""
        status = self._store(found).status
        if (never := unreachable_reason(condition, self.name, status)) is not None:
            raise never
        return is_reached(condition, status)

    def _statuses(self, stop: CancelToken) -> Iterator[JobStatus]:
        """As it changes, until it has ended or is gone."""
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
            raise ElasticJobError(
                f"the job {self.name} is only a manifest yet: create() it, or get() it from a cluster"
            )
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
        return JobGone(f"the job {self.name} (uid {self.uid}) of namespace {self.namespace} is gone: it was deleted")
