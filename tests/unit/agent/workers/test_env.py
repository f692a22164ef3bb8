"""The environment of a worker: torchrun's contract, a few variables of elasticjob, none of the agent's."""

from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.workers.env import WorkerPaths, worker_environment
from elasticjob_api import constants
from elasticjob_api.rendezvous_state import Member

PLACE = Assignment(
    round=5,
    nonce="n",
    member=Member(0, "0000000a"),
    group_rank=1,
    group_world_size=3,
    nproc=2,
    base_rank=2,
    world_size=6,
    role="trainer",
    role_base_rank=1,
    role_world_size=5,
    master_addr="10.0.0.1",
    master_port=23456,
    restart_count=4,
)


PATHS = WorkerPaths(error_file="/logs/error.json", progress="/logs/progress")


def environment(**base: str) -> dict[str, str]:
    """Return the environment of the second worker of two."""
    return worker_environment(base, PLACE, local_rank=1, run_id="job-1", max_restarts=7, paths=PATHS)


def test_every_variable_of_torchruns_contract_has_its_value() -> None:
    assert environment() == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "GROUP_RANK": "1",
        "ROLE_RANK": "2",
        "ROLE_NAME": "trainer",
        "WORLD_SIZE": "6",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_WORLD_SIZE": "5",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "23456",
        "TORCHELASTIC_RESTART_COUNT": "4",
        "TORCHELASTIC_MAX_RESTARTS": "7",
        "TORCHELASTIC_RUN_ID": "job-1",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": "/logs/error.json",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "OMP_NUM_THREADS": "1",
        "ELASTICJOB_ROUND": "5",
        "ELASTICJOB_PROGRESS": "/logs/progress",
    }


def test_the_containers_own_environment_stays() -> None:
    own = {"PATH": "/bin", "HOME": "/root", "PYTHONPATH": "/app", "LD_LIBRARY_PATH": "/lib", "EMPTY": ""}
    assert own.items() <= environment(**own).items()


@pytest.mark.parametrize(
    "name",
    [
        *(
            constants.ENV_PREFIX,
            constants.ENV_ENDPOINTS,
            constants.ENV_LOG_DIR,
            constants.ENV_TERMINATION_LOG,
            constants.ENV_TRACE,
        ),
        *(constants.ENV_ETCD_TLS, constants.ENV_LOG_LEVEL, "GRPC_VERBOSITY", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"),
    ],
)
def test_variables_of_the_agent_do_not_reach_a_worker(name: str) -> None:
    assert name not in environment(**{name: "x"})


@pytest.mark.parametrize(
    "name", [constants.ENV_JOB, constants.ENV_SLOT, constants.ENV_POD_NAME, constants.ENV_NODE_NAME]
)
def test_variables_that_name_job_and_pod_reach_a_worker(name: str) -> None:
    assert environment(**{name: "x"})[name] == "x"


def test_a_rank_from_the_containers_environment_is_replaced() -> None:
    assert environment(RANK="99", WORLD_SIZE="99", MASTER_ADDR="elsewhere")["RANK"] == "3"


@pytest.mark.parametrize(
    ("name", "value"), [("OMP_NUM_THREADS", "4"), ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"), ("OMP_NUM_THREADS", "")]
)
def test_a_default_does_not_replace_a_users_value(name: str, value: str) -> None:
    assert environment(**{name: value})[name] == value


def test_a_single_worker_may_use_all_cores() -> None:
    alone = replace(PLACE, nproc=1)
    variables = worker_environment({}, alone, local_rank=0, run_id="job-1", max_restarts=7, paths=PATHS)
    assert "OMP_NUM_THREADS" not in variables


def test_the_base_is_not_changed() -> None:
    base = {"PATH": "/bin", constants.ENV_PREFIX: "/p"}
    environment(**base)
    assert base == {"PATH": "/bin", constants.ENV_PREFIX: "/p"}


def test_the_variables_of_kept_steps_are_those_of_the_round_and_never_inherited() -> None:
    outer = {constants.ENV_KEEP: "/outer", constants.ENV_KEPT: "/outer/kept", constants.ENV_KEPT_STEP: "9"}
    own = {constants.ENV_KEEP: "/keep/in/5.n"}
    inside = worker_environment(outer, PLACE, local_rank=0, run_id="job-1", max_restarts=7, paths=PATHS, kept_steps=own)
    assert {name: value for name, value in inside.items() if name in outer} == own
    without = worker_environment(outer, PLACE, local_rank=0, run_id="job-1", max_restarts=7, paths=PATHS)
    assert not outer.keys() & without.keys()


def test_a_worker_does_not_see_how_the_agent_keeps_steps() -> None:
    names = (
        constants.ENV_KEEP_DIR,
        constants.ENV_KEEP_SIZE_LIMIT,
        constants.ENV_KEEP_COPIES,
        constants.ENV_KEEP_BANDWIDTH,
        constants.ENV_KEEP_RESTORE_TIMEOUT,
        constants.ENV_KEEP_PERSIST_TO,
        constants.ENV_KEEP_PERSIST_EVERY,
        constants.ENV_KEEP_PERSIST_KEEP,
        constants.ENV_KEEP_RESUME,
        constants.ENV_KEEP_PERSISTED,
    )
    assert not set(names) & environment(**dict.fromkeys(names, "1")).keys()
