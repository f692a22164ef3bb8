"""Remarks about a job whose `spec.keep` cannot work as it is: memory for the volume, and nodes for the copies.

The volume counts against the memory limit of the trainer container.
"""

from elasticjob_api.job import trainer_container
from elasticjob_api.quantity import bytes_of
from elasticjob_api.records import KeepReport
from elasticjob_api.spec import JobSpec, Keep


def memory_remark(spec: JobSpec) -> str:
    """Return why the memory limit is too small for the volume, with the cure; empty if it is not."""
    limit = ((trainer_container(spec).get("resources") or {}).get("limits") or {}).get("memory")
    if spec.keep is None or limit is None or not _is_within(str(limit), spec.keep.size_limit):
        return ""
    return (
        f"the trainer container has a memory limit of {limit}, and spec.keep.sizeLimit is {spec.keep.size_limit}; "
        "what is kept counts against that limit: raise it to what the training needs beside it"
    )


def volume_remark(keep: Keep, report: KeepReport) -> str:
    """Return why the volume of a node is smaller than the limit, with the cure; empty if it is not."""
    if not report.size_limit_bytes or report.size_limit_bytes >= bytes_of(keep.size_limit):
        return ""
    return (
        f"its node has memory for {report.size_limit_bytes >> 20} MiB, and spec.keep.sizeLimit is {keep.size_limit}; "
        "lower it, or choose larger nodes"
    )


def copies_remark(spec: JobSpec) -> str:
    """Return why a job can never have as many copies as it asks for, with the cure; empty if it can."""
    if spec.keep is None or spec.keep.copies < spec.effective_max:
        return ""
    most = spec.effective_max - 1
    return (
        f"spec.keep.copies is {spec.keep.copies}, and a job of at most {spec.effective_max} "
        f"node{'s' if most else ''} has {most or 'no'} other; set it to {most}, or raise spec.maxReplicas"
    )


def _is_within(limit: str, volume: str) -> bool:
    """Return whether a memory limit is at most as large as the volume."""
    try:
        return bytes_of(limit) <= bytes_of(volume)
    except ValueError:
        return False  # the API server rejects such a limit with the pod
