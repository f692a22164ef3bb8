"""Settings from a command line, and the error for a wrong one."""

import signal
from pathlib import Path

import pytest

from elasticjob_agent.cli import config
from elasticjob_agent.cli.options import build_parser
from elasticjob_agent.errors import UsageError
from elasticjob_agent.node.run_node import NodeSettings
from elasticjob_agent.shared_etcd.address import SharedEtcd

LOGS = Path("/logs")


def made(line: str, **environment: str) -> NodeSettings:
    """Return the settings of this line; etcd is on the loopback interface."""
    namespace = build_parser(environment).parse_args([*line.split(), "train.py"])
    backend = config.validate(namespace, environment)
    targets = (f"127.0.0.1:{backend.port}",) if isinstance(backend, SharedEtcd) else ("127.0.0.1:2379",)
    return config.from_command_line(namespace, environment, LOGS, targets=targets, backend=backend)


ETCD = "--rdzv-backend etcd --rdzv-endpoint 127.0.0.1 --rdzv-id r"


def test_an_elastic_job() -> None:
    spec = made(f"{ETCD} --nnodes 2:4 --max-restarts 3 --rdzv-conf join_timeout=9").identity.own_spec
    assert spec is not None
    assert (spec.min, spec.max, spec.desired, spec.max_restarts, spec.join_timeout_s) == (2, 4, 4, 3, 9.0)


@pytest.mark.parametrize(
    ("conf", "last_call_s"), [("join_timeout=9", 1.0), ("last_call_timeout=7", 7.0), ("last_call_timeout=0", 0.0)]
)
def test_the_last_call_timeout_can_be_set(conf: str, last_call_s: float) -> None:
    spec = made(f"{ETCD} --rdzv-conf {conf}").identity.own_spec
    assert spec is not None
    assert spec.last_call_timeout_s == last_call_s


def test_restart_window_and_backoff_can_be_set() -> None:
    spec = made(f"{ETCD} --rdzv-conf restart_window=60,backoff=0,backoff_max=9").identity.own_spec
    assert spec is not None
    assert (spec.restart_window_s, spec.backoff_initial_s, spec.backoff_max_s) == (60.0, 0.0, 9.0)
    plain = made(ETCD).identity.own_spec
    assert plain is not None
    assert (plain.restart_window_s, plain.backoff_initial_s, plain.backoff_max_s) == (0.0, 1.0, 300.0)


@pytest.mark.parametrize(
    ("option", "variable", "is_warm"),
    [
        ("", None, False),
        ("", "Auto", True),
        ("", "Off", False),
        ("--warm-start Auto", "Off", True),
        ("--warm-start Off", "Auto", False),
    ],
)
def test_the_option_for_warm_starts_precedes_the_variable(option: str, variable: str | None, *, is_warm: bool) -> None:
    environment = {} if variable is None else {"ELASTICJOB_WARM_START": variable}
    assert made(option, **environment).is_warm_start is is_warm


def test_a_variable_for_warm_starts_of_a_newer_version_is_named_and_means_off(caplog: pytest.LogCaptureFixture) -> None:
    assert made("", ELASTICJOB_WARM_START="Always").is_warm_start is False
    assert "ELASTICJOB_WARM_START is Always; it must be Auto or Off" in caplog.text


def test_a_static_job_needs_all_nodes_and_the_slot_is_the_node_rank() -> None:
    static = made("--nnodes 2:4 --node-rank 3 --master-addr 127.0.0.1 --master-port 7 --nproc-per-node 2")
    spec = static.identity.own_spec
    assert spec is not None
    assert (spec.min, spec.max, static.identity.slot, static.fixed_port) == (4, 4, 3, 7)


def test_node_rank_0_of_a_static_job_has_the_address_that_the_user_gave() -> None:
    line = "--nnodes 2 --master-addr localhost --master-port 7 --node-rank"
    assert (made(f"{line} 0").identity.address, made(f"{line} 1").identity.address) == ("localhost", "127.0.0.1")


def test_node_rank_is_the_slot_with_etcd_and_has_no_effect_with_c10d() -> None:
    assert made(f"{ETCD} --node-rank 5").identity.slot == 5
    assert made(f"{ETCD}").identity.slot is None
    assert made("--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:1 --node-rank 5").identity.slot is None


def test_a_standalone_run_without_a_name_gets_a_unique_one() -> None:
    assert made("").run_id != made("").run_id
    assert made("--rdzv-id mine").run_id == "mine"


@pytest.mark.parametrize(
    ("line", "environment", "seconds"),
    [
        ("", {}, 30.0),
        ("", {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}, 7.0),
        ("--shutdown-timeout 5", {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}, 5.0),
        ("", {"PET_SHUTDOWN_TIMEOUT": "6"}, 6.0),
    ],
)
def test_the_stop_grace_comes_from_the_option_or_a_variable(
    line: str, environment: dict[str, str], seconds: float
) -> None:
    spec = made(line, **environment).identity.own_spec
    assert spec is not None
    assert spec.graceful_shutdown_s == seconds


def test_etcd_may_be_behind_tls() -> None:
    endpoint = made(f"{ETCD} --rdzv-conf cacert=/ca,cert=/c,key=/k").endpoint
    assert (endpoint.ca_cert, endpoint.cert, endpoint.key) == ("/ca", "/c", "/k")


def test_signals_and_python_can_be_chosen() -> None:
    settings = made("--signals-to-handle SIGUSR1", PYTHON_EXEC="/venv/python")
    assert (settings.signals, settings.argv) == ((signal.SIGUSR1,), ("/venv/python", "-u", "train.py"))


@pytest.mark.parametrize(
    ("line", "environment", "why"),
    [
        ("--logs-specs mine", {}, "--logs-specs mine: such classes need torch"),
        ("--numa-binding exclusive --nproc-per-node 1024", {}, "--numa-binding exclusive: workers cannot be bound"),
        ("", {"PET_NUMA_BINDING": "near"}, "--numa-binding near: it must be one of core-complex, exclusive, node"),
        ("--rdzv-id a/b", {}, "it must be a name without a slash"),
        ("", {"PET_START_METHOD": "thread"}, "--start-method thread: it must be one of spawn, fork, forkserver"),
        ("--shutdown-timeout -1", {}, "it must be a whole number from 0"),
        ("", {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "soon"}, "--shutdown-timeout soon"),
        ("--max-restarts many", {}, "--max-restarts many"),
        ("--monitor-interval 0", {}, "--monitor-interval 0"),
        ("--virtual-local-rank --nproc-per-node 2", {"CUDA_VISIBLE_DEVICES": "0"}, "--virtual-local-rank: 2 workers"),
        (f"{ETCD} --node-rank x", {}, "--node-rank x: it must be a whole number"),
    ],
)
def test_a_wrong_line_is_refused_by_one_sentence(line: str, environment: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(line, **environment)
