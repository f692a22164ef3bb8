"""Whether a job, as the API server stores it, has ended or is suspended; nothing of it was checked before."""

from collections.abc import Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_api.constants import ConditionType
from elasticjob_operator.model import objects

FINAL_CONDITIONS = frozenset({ConditionType.COMPLETE, ConditionType.FAILED})


def has_ended(job: Mapping[str, Any]) -> bool:
    """Return whether the stored status has ended and was written for this very object."""
    status = job.get("status")
    if not isinstance(status, dict):
        return False
    if status.get("selector") not in {None, "", f"{constants.LABEL_JOB_UID}={objects.uid_of(job)}"}:
        return False
    given = status.get("conditions")
    found = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    is_final = any(each.get("type") in FINAL_CONDITIONS and each.get("status") == "True" for each in found)
    return is_final or bool(status.get("completionTime"))


def is_to_stop(job: Mapping[str, Any]) -> bool:
    """Return whether the job is suspended and may have pods.

    It may if an operator has started it, or has written a condition `Suspended`.
    """
    spec, status = job.get("spec"), job.get("status")
    if not isinstance(spec, dict) or spec.get("suspend") is not True or not isinstance(status, dict):
        return False
    given = status.get("conditions")
    types = [each.get("type") for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return bool(status.get("startTime")) or ConditionType.SUSPENDED in types
