"""--virtual-local-rank: every worker is local rank 0 and sees one device, its own."""

import pytest

from elasticjob_agent.workers.env import WorkerPaths, worker_environment
from tests.unit.agent.workers.test_output import place


@pytest.mark.parametrize(
    ("visible", "devices"), [(None, ["0", "1"]), ("4, 6", ["4", "6"]), ("GPU-a,GPU-b,GPU-c", ["GPU-a", "GPU-b"])]
)
def test_each_worker_sees_its_own_device_as_the_first(visible: str | None, devices: list[str]) -> None:
    base = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    paths = WorkerPaths(error_file="", progress="")
    environments = [
        worker_environment(base, place(2), local_rank=rank, run_id="r", max_restarts=0, paths=paths, virtual=True)
        for rank in range(2)
    ]
    assert [(env["LOCAL_RANK"], env["CUDA_VISIBLE_DEVICES"]) for env in environments] == [("0", d) for d in devices]
