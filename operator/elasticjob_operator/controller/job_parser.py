"""Parsing of a job's object: the job, or the reason why it cannot be acted on."""

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
    """Return the job of an object.

    Args:
        obj: the object.
        status: the job's status if it is known; otherwise it is read from the object.

    Raises:
        InvalidSpec: a field of the job is invalid.
        RenderError: the job cannot be rendered as pods.
    """
    found = parse_stored_job(_without_status(obj))
    validate(found)
    return replace(found, status=status or read_status(obj))


class CachingJobParser:
    """Parses the versions of one job; it parses again only if a part that the user controls has changed."""

    # Most versions of a job differ only in the status that this operator writes.

    def __init__(self) -> None:
        self._spec: Object = {}
        self._parsed: ElasticJob | None = None

    def forget(self) -> None:
        """Drop the parsed job."""
        self._spec, self._parsed = {}, None

    def parse(self, obj: Object, status: JobStatus | None) -> ElasticJob:
        """Return the job as the function `parse` does.

        Raises:
            InvalidSpec: a field is invalid, or the cache does not hold the job's spec.
            RenderError: the job cannot be rendered as pods.
        """
        if why := objects.not_retained_reason(obj):
            self.forget()
            raise InvalidSpec([FieldError("spec", why)])
        wanted = _without_status(obj)
        if self._parsed is None or wanted != self._spec:
            self.forget()
            self._parsed, self._spec = parse(obj, status), wanted
        return replace(self._parsed, status=status or read_status(obj))


def _without_status(obj: Object) -> Object:
    """Return the object without `status` and `metadata.resourceVersion`: the part that the user controls."""
    metadata = {name: value for name, value in objects.metadata(obj).items() if name != "resourceVersion"}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}


def read_status(obj: Object) -> JobStatus:
    """Return the readable part of the stored status; a newer operator may have written the rest.

    The status of an earlier job of the same name is ignored. A late write of an older operator, which sent no uid, may
    have put it here. The end of a job is read even if the rest is unreadable: a job that has ended is never started
    again. The installation is left out, because it is not written with the rest.
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
