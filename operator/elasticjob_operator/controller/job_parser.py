"""PURE: an object of the API server as a job that can be acted on, or the reason why not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from elasticjob_api import constants, job
from elasticjob_api.constants import ConditionType
from elasticjob_api.errors import FieldError, InvalidSpec
from elasticjob_api.job import ElasticJob, parse_stored_job
from elasticjob_api.status import Condition, JobStatus
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.render.validation import validate


def parse(obj: Object, status: JobStatus | None = None) -> ElasticJob:
    """Return the job; raise InvalidSpec or RenderError if it cannot be acted on. `said`: its status, if known."""
    found = parse_stored_job(_without_status(obj))
    validate(found)
    return replace(found, status=status or read_status(obj))


class CachingJobParser:
    """`parse` for one job, which parses only what has changed: most versions of a job are statuses of ours."""

    def __init__(self) -> None:
        self._spec: Object = {}
        self._parsed: ElasticJob | None = None

    def forget(self) -> None:
        """It holds what it has parsed no more."""
        self._spec, self._parsed = {}, None

    def parse(self, obj: Object, said: JobStatus | None) -> ElasticJob:
        """As `parse`; InvalidSpec as well for a job of which only the head is here."""
        if why := objects.not_retained_reason(obj):
            self.forget()
            raise InvalidSpec([FieldError("spec", why)])
        wanted = _without_status(obj)
        if self._parsed is None or wanted != self._spec:
            self.forget()
            self._parsed, self._spec = parse(obj, said), wanted
        return replace(self._parsed, status=said or read_status(obj))


def _without_status(obj: Object) -> Object:
    """Return the object without `status` and `metadata.resourceVersion`: the part that the user controls."""
    metadata = {name: value for name, value in objects.metadata(obj).items() if name != "resourceVersion"}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}


def read_status(obj: Object) -> JobStatus:
    """Return the stored status, as far as it can be read: a newer operator may have written it.

    The status of a predecessor of the same name is none: a late write of an older operator, which named no uid, may
    have landed here. That a job has ended is read from the stored status itself, whatever else of it can be read: a
    job that has ended is never started again. The installation is left out: it is not rewritten with the rest.
    """
    status = replace(job.read_status(obj.get("status")), installation="")
    return JobStatus() if _is_of_predecessor(status, obj) else _with_end(status, obj)


def unknown_in_status(obj: Object) -> list[str]:
    """Return the paths in the stored status that this version does not know, or cannot read."""
    ignored: list[str] = []
    status = job.read_status(obj.get("status"), ignored)
    return [] if _is_of_predecessor(status, obj) else ignored


def _is_of_predecessor(status: JobStatus, obj: Object) -> bool:
    return status.selector not in {"", f"{constants.LABEL_JOB_UID}={objects.uid_of(obj)}"}


def _with_end(status: JobStatus, obj: Object) -> JobStatus:
    stored = obj.get("status")
    if not isinstance(stored, dict):
        return status
    known = {each.type for each in status.conditions if each.status == "True"}
    ended = [each for each in _final_conditions(stored) if each not in known]
    if not ended and (status.completion_time or not stored.get("completionTime")):
        return status
    now = str(objects.metadata(obj).get("creationTimestamp") or "")
    message = "this part of the status cannot be read"
    lost = (
        Condition(type=each, status="True", reason="Unreadable", message=message, last_transition_time=now)
        for each in ended
    )
    completed = status.completion_time or str(stored.get("completionTime") or "")
    others = (each for each in status.conditions if each.type not in ended)
    return replace(status, conditions=(*others, *lost), completion_time=completed)


def _final_conditions(stored: dict[str, Any]) -> Iterator[ConditionType]:
    found = stored.get("conditions")
    given = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    for name in (ConditionType.COMPLETE, ConditionType.FAILED):
        if any(each.get("type") == name and each.get("status") == "True" for each in given):
            yield name
