"""The environment of workers: torchrun's contract, consistent over all ranks, and none of the agent's variables."""

from pathlib import Path

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.fleet import fleet

pytestmark = pytest.mark.etcd


def test_every_worker_gets_torchruns_contract_consistently(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    with fleet(etcd_server.endpoint.targets[0], tmp_path, "2", 2) as job:
        job.start_agents(2)
        envs = sorted((p["env"] for p in job.running(1)), key=lambda env: int(env["RANK"]))
    assert [env["RANK"] for env in envs] == ["0", "1", "2", "3"]
    assert [env["LOCAL_RANK"] for env in envs] == ["0", "1", "0", "1"]
    assert [env["GROUP_RANK"] for env in envs] == ["0", "0", "1", "1"]
    assert [env["ROLE_RANK"] for env in envs] == ["0", "1", "2", "3"]
    same = {
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_WORLD_SIZE": "4",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "100",
        "TORCHELASTIC_RUN_ID": job.run_id,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "OMP_NUM_THREADS": "1",
        "ELASTICJOB_ROUND": "1",
        "ELASTICJOB_TRACE": None,
    }
    for env in envs:
        assert {name: env[name] for name in same} == same
    assert len({env["MASTER_PORT"] for env in envs}) == 1
    assert len({env["TORCHELASTIC_ERROR_FILE"] for env in envs}) == 4
