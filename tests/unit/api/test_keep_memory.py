"""Whether a trainer container has room for its volume of kept steps."""

from typing import Any

import pytest

from elasticjob_api.keep_memory import memory_remark
from elasticjob_api.spec import Keep
from testing.builders import spec, template


def remark(memory: Any, size_limit: str = "8Gi") -> str:
    limited = template(resources={"limits": {} if memory is None else {"memory": memory}})
    return memory_remark(spec(template=limited, keep=Keep(size_limit=size_limit)))


@pytest.mark.parametrize("memory", ["8Gi", "4Gi", 1, "100m"])
def test_a_limit_that_leaves_nothing_for_the_training_is_remarked_with_the_cure(memory: Any) -> None:
    assert remark(memory) == (
        f"the trainer container has a memory limit of {memory}, and spec.keep.sizeLimit is 8Gi; "
        "what is kept counts against that limit: raise it to what the training needs beside it"
    )


@pytest.mark.parametrize("memory", ["9Gi", None, "much", 10**30])
def test_a_larger_limit_and_none_and_one_that_the_api_server_refuses_are_not_remarked(memory: Any) -> None:
    assert remark(memory) == ""


def test_a_job_that_keeps_no_steps_is_not_remarked() -> None:
    assert memory_remark(spec(template=template(resources={"limits": {"memory": "1"}}))) == ""
