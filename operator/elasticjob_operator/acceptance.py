"""PURE: an object of the API server as a job that can be acted on, or the sentence that says why not."""

from dataclasses import fields, replace
from typing import Any

from elasticjob_api import codec, names
from elasticjob_api.errors import CodecError
from elasticjob_api.job import ElasticJob, parse_job
from elasticjob_api.status import JobStatus
from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.protocol import Object
from elasticjob_operator.render.checks import check


def accept(obj: Object, said: JobStatus | None = None) -> ElasticJob:
    """The job; InvalidSpec or RenderError when nobody can act on it. `said` is its status where that is known."""
    job = parse_job(_wanted(obj))
    check(job)
    return replace(job, status=said or read_status(obj))


class Acceptor:
    """`accept` for one job, which parses only what has changed: most versions of a job are statuses of ours."""

    def __init__(self) -> None:
        self._wanted: Object = {}
        self._job: ElasticJob | None = None

    def accept(self, obj: Object, said: JobStatus | None) -> ElasticJob:
        """As `accept`."""
        wanted = _wanted(obj)
        if self._job is None or wanted != self._wanted:
            self._job = None
            self._job, self._wanted = accept(obj, said), wanted
        return replace(self._job, status=said or read_status(obj))


def _wanted(obj: Object) -> Object:
    """What the user says, without what is said of it."""
    metadata = {name: value for name, value in objects.metadata(obj).items() if name != "resourceVersion"}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}


def read_status(obj: Object) -> JobStatus:
    """What was said of the job; a status that does not fit (a newer operator's) is as good as none.

    So is one of a predecessor of the same name: the write of a status knows no uid, and a late one may land here.
    """
    given: dict[str, Any] = obj.get("status") or {}
    try:
        status = codec.read(JobStatus, {name: value for name, value in given.items() if name in _KNOWN})
    except CodecError:
        return JobStatus()
    return status if status.selector in {"", f"{names.LABEL_JOB_UID}={objects.uid_of(obj)}"} else JobStatus()


_KNOWN = frozenset(codec.json_name(each.name) for each in fields(JobStatus))


def is_ours(obj: Object) -> bool:
    """No other controller manages it: otherwise nothing of it is touched, not even the status."""
    return (obj.get("spec") or {}).get("managedBy") in {None, "", names.MANAGED_BY}
