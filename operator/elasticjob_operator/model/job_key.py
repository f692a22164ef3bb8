"""The identity of a job (namespace, name and uid, because a re-created job is another one), and its keys in etcd."""

import functools
from dataclasses import dataclass

from elasticjob_api import constants
from elasticjob_api.keys import ROOT, Keys, ParsedKey, job_prefix
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """The key of one job, which no other job ever has."""

    namespace: str
    name: str
    uid: str

    def keys(self, cluster_id: str) -> Keys:
        """Return its keys in etcd."""
        return Keys(job_prefix(cluster=cluster_id, namespace=self.namespace, name=self.name, uid=self.uid))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def key_of_job(obj: Object) -> JobKey:
    """Return the key of an ElasticJob."""
    return JobKey(objects.namespace_of(obj), objects.name_of(obj), objects.uid_of(obj))


def key_of_pod(obj: Object) -> JobKey | None:
    """Return the key of the job that a pod belongs to, by its labels and its owner; None for a pod of no job."""
    key = key_of_labels(obj)
    return key if key is not None and key.uid in objects.owner_uids(obj) else None


def key_of_labels(obj: Object) -> JobKey | None:
    """Return the key of the job that a pod's labels name; any user may set those labels."""
    labels = objects.labels_of(obj)
    name, uid = labels.get(constants.LABEL_JOB_NAME), labels.get(constants.LABEL_JOB_UID)
    return JobKey(objects.namespace_of(obj), name, uid) if name and uid else None


def key_of_etcd_key(key: str) -> JobKey | None:
    """Return the job in `/elasticjob/<cluster>/<namespace>/<name>/<uid>/…`; None for any other key."""
    if not key.startswith(f"{ROOT}/"):
        return None
    _, _, _, *parts = key.split("/", _PARTS)
    return _key_of(*parts[:3]) if len(parts) > _UID else None


def parse(etcd_key: str) -> ParsedKey | None:
    """Return the parsed part of a job's key below its prefix; None for any other key."""
    return Keys("/".join(etcd_key.split("/", _PARTS)[:_PARTS])).parse(etcd_key)


_PARTS, _UID = 6, 3
_key_of = functools.lru_cache(maxsize=4096)(JobKey)
"""Cached, because it is called for every report."""
