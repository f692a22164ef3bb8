"""Whether a trainer container has room for the volume of `spec.keep`, whose bytes count against its memory limit."""

from elasticjob_api.job import trainer_container
from elasticjob_api.quantity import bytes_of
from elasticjob_api.spec import JobSpec


def memory_remark(spec: JobSpec) -> str:
    """Return why the memory limit is too small for the volume, with the cure; empty if it is not."""
    limit = ((trainer_container(spec).get("resources") or {}).get("limits") or {}).get("memory")
    if spec.keep is None or limit is None or not _is_within(str(limit), spec.keep.size_limit):
        return ""
    return (
        f"the trainer container has a memory limit of {limit}, and spec.keep.sizeLimit is {spec.keep.size_limit}; "
        "what is kept counts against that limit: raise it to what the training needs beside it"
    )


def _is_within(limit: str, volume: str) -> bool:
    """Return whether a memory limit is at most as large as the volume."""
    try:
        return bytes_of(limit) <= bytes_of(volume)
    except ValueError:
        return False  # the API server rejects such a limit with the pod
