"""What has no effect is said, in a sentence that names it; what has one is not."""

import pytest

from elasticjob_agent.cli.ignored_options import ignored_option_warnings
from elasticjob_agent.cli.options import build_parser


def said(line: str, **environment: str) -> list[str]:
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
def test_what_has_no_effect_is_said(line: str, beginning: str) -> None:
    assert [sentence[: len(beginning)] for sentence in said(line)] == [beginning]


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
def test_nothing_is_said_of_what_works(line: str) -> None:
    assert said(line) == []


@pytest.mark.parametrize(
    "key", ["close_timeout", "heartbeat_timeout", "read_timeout", "store_type", "use_libuv", "etcd_prefix", "rank"]
)
def test_what_other_backends_are_told_by_rdzv_conf_is_said_to_have_no_effect(key: str) -> None:
    (sentence,) = said(f"--rdzv-conf {key}=1")
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
def test_variables_of_torch_elastic_without_an_effect_are_said_if_they_are_on(name: str) -> None:
    assert said("", **{name: "0"}) == []
    (sentence,) = said("", **{name: "1"})
    assert sentence.startswith(f"{name} has no effect: ")
