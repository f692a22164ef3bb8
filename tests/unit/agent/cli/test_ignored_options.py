"""An option without an effect causes one warning that names it; other options cause none."""

import pytest

from elasticjob_agent.cli.ignored_options import ignored_option_warnings
from elasticjob_agent.cli.options import build_parser


def warnings(line: str, **environment: str) -> list[str]:
    return ignored_option_warnings(build_parser({}).parse_args([*line.split(), "train.py"]), environment)


@pytest.mark.parametrize(
    ("line", "beginning"),
    [
        ("--monitor-interval 5", "--monitor-interval 5 has no effect"),
        ("--start-method fork", "--start-method fork has no effect"),
        ("--event-log-handler console", "--event-log-handler console has no effect"),
        ("--rdzv-conf close_timeout=3", "--rdzv-conf close_timeout has no effect"),
        ("--standalone --rdzv-endpoint h:1", "--rdzv-endpoint has no effect"),
        ("--standalone --master-addr h", "--master-addr and --master-port have no effect"),
        ("--rdzv-backend etcd --rdzv-endpoint h --master-port 1", "--master-addr and --master-port have no effect"),
        ("--rdzv-backend c10d --rdzv-endpoint h --node-rank 1", "--node-rank has no effect"),
        ("--run-path --no-python", "--no-python and -m have no effect"),
    ],
)
def test_an_option_without_effect_causes_a_warning(line: str, beginning: str) -> None:
    assert [sentence[: len(beginning)] for sentence in warnings(line)] == [beginning]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--standalone",
        "--nnodes 2 --node-rank 1 --master-addr h --master-port 7",
        "--rdzv-backend etcd --rdzv-endpoint h --node-rank 1 --rdzv-conf timeout=9",
        "--run-path -t 3 -r 3 --role ps",
    ],
)
def test_options_with_an_effect_cause_no_warning(line: str) -> None:
    assert warnings(line) == []


@pytest.mark.parametrize(
    ("line", "variable", "warns"),
    [
        ("--standalone --keep-dir /dev/shm --keep-persist-to /ckpt", "", True),
        ("--standalone", "/ckpt", True),
        ("--standalone --rdzv-id mine --keep-dir /dev/shm --keep-persist-to /ckpt", "", False),
        ("--rdzv-backend etcd --rdzv-endpoint h --keep-dir /dev/shm --keep-persist-to /ckpt", "", False),
    ],
)
def test_a_standalone_run_without_a_name_that_persists_steps_causes_a_warning(
    line: str, variable: str, *, warns: bool
) -> None:
    expected = ["no later run resumes the steps in /ckpt: "] if warns else []
    found = warnings(line, ELASTICJOB_KEEP_PERSIST_TO=variable)
    assert [sentence[:40] for sentence in found] == [each[:40] for each in expected]
    assert all(sentence.endswith("the same --rdzv-id") for sentence in found)


@pytest.mark.parametrize(
    "key", ["close_timeout", "heartbeat_timeout", "read_timeout", "store_type", "use_libuv", "etcd_prefix", "rank"]
)
def test_rdzv_conf_keys_of_other_backends_cause_a_warning(key: str) -> None:
    (sentence,) = warnings(f"--rdzv-conf {key}=1")
    assert sentence.startswith(f"--rdzv-conf {key} has no effect: ")


@pytest.mark.parametrize(
    "name",
    [
        "TORCHELASTIC_ENABLE_FILE_TIMER",
        "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
        "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT",
        "TORCH_ELASTIC_WORKER_IDENTICAL",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
        "TORCH_MP_PARALLEL_START",
    ],
)
def test_variables_of_torch_elastic_without_effect_cause_a_warning_if_they_are_on(name: str) -> None:
    assert warnings("", **{name: "0"}) == []
    (sentence,) = warnings("", **{name: "1"})
    assert sentence.startswith(f"{name} has no effect: ")
