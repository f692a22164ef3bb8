"""Settings from the environment of a pod."""

from pathlib import Path

import pytest

from elasticjob_agent.cli.options import build_parser
from elasticjob_agent.cli.pod_config import from_pod
from elasticjob_agent.errors import UsageError
from elasticjob_agent.host.numa import AffinityMode, NumaOptions, cpu_bindings
from elasticjob_agent.node.keep_settings import TlsFiles
from elasticjob_agent.workers.output import PREFIX_TEMPLATE
from elasticjob_api import constants
from elasticjob_api.bootstrap import bootstrap_of, encode_bootstrap
from elasticjob_api.records import SpecRecord

LOGS = Path("/logs")


POD = {
    constants.ENV_PREFIX: "/p",
    constants.ENV_ENDPOINTS: "etcd:2379",
    constants.ENV_SLOT: "0",
    constants.ENV_NPROC: "1",
    constants.ENV_POD_NAME: "j-0-a",
    constants.ENV_POD_UID: "u",
    constants.ENV_POD_IP: "10.0.0.1",
    constants.ENV_JOB: "j",
}


def test_in_a_pod_etcd_is_dialled_with_the_mounted_certificate() -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    secured = from_pod(namespace, {**POD, constants.ENV_ETCD_TLS: "/certificates"}, LOGS).endpoint
    files = ("/certificates/ca.crt", "/certificates/tls.crt", "/certificates/tls.key")
    assert (secured.ca_cert, secured.cert, secured.key) == files
    plain = from_pod(namespace, POD, LOGS).endpoint
    assert (plain.ca_cert, plain.cert, plain.key) == (None, None, None)


def test_in_a_pod_workers_are_bound_by_the_variable_of_the_container() -> None:
    def cpus(**environment: str) -> tuple[frozenset[int], ...]:
        namespace = build_parser(environment).parse_args(["--pod", "train.py"])
        return from_pod(namespace, {**POD, **environment}, LOGS).cpus

    assert cpus() == ()
    assert cpus(PET_NUMA_BINDING="node") == tuple(cpu_bindings(NumaOptions(AffinityMode.NODE), 1))
    with pytest.raises(UsageError, match="--numa-binding near: it must be one of"):
        cpus(PET_NUMA_BINDING="near")


def test_in_a_pod_workers_are_started_warm_if_the_operator_wants_it() -> None:
    namespace = build_parser({"PET_WARM_START": "Auto"}).parse_args(["--pod", "train.py"])
    assert from_pod(namespace, {**POD, constants.ENV_WARM_START: "Auto"}, LOGS).is_warm_start
    assert not from_pod(namespace, POD, LOGS).is_warm_start


@pytest.mark.parametrize(
    ("size", "linger_s"),
    [
        pytest.param(str(16 << 20), 8.17, id="a small volume has the margin of the pod's grace"),
        pytest.param("1000000000", 18.0, id="the operator adds the time to copy the volume"),
        pytest.param(str(1 << 40), 30.0, id="half a minute at most"),
    ],
)
def test_in_a_pod_the_volume_is_this_agents_alone_and_it_lingers_within_the_pods_grace(
    size: str, linger_s: float
) -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    keep = from_pod(namespace, {**POD, constants.ENV_KEEP_DIR: "/keep", constants.ENV_KEEP_SIZE_LIMIT: size}, LOGS).keep
    assert keep is not None
    assert (keep.directory, keep.is_shared, keep.tls) == (Path("/keep"), False, None)
    assert keep.linger_s == pytest.approx(linger_s, abs=0.01)


def test_in_a_pod_a_last_step_has_half_a_minute_to_reach_the_disk_however_small_it_is() -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    kept = {constants.ENV_KEEP_DIR: "/keep", constants.ENV_KEEP_SIZE_LIMIT: str(16 << 20)}
    keep = from_pod(namespace, {**POD, **kept, constants.ENV_KEEP_PERSIST_TO: "/ckpt"}, LOGS).keep
    assert keep is not None
    assert keep.linger_s == constants.KEEP_LINGER_S


def test_in_a_pod_keepers_use_the_certificate_of_the_job() -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    variables = {**POD, constants.ENV_KEEP_DIR: "/keep", constants.ENV_ETCD_TLS: "/tls"}
    keep = from_pod(namespace, variables, LOGS).keep
    assert keep is not None
    assert keep.tls == TlsFiles(certificate="/tls/tls.crt", key="/tls/tls.key", authority="/tls/ca.crt")


def test_in_a_pod_without_a_volume_for_them_no_steps_are_kept() -> None:
    assert from_pod(build_parser({}).parse_args(["--pod", "train.py"]), POD, LOGS).keep is None


def test_in_a_pod_the_template_of_a_prefix_leaves_the_rank_in_front() -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    made = from_pod(namespace, {**POD, PREFIX_TEMPLATE: "${role_name}: "}, LOGS).output
    assert (made.prefix_template, made.keeps_rank) == ("${role_name}: ", True)


@pytest.mark.parametrize(
    ("template", "prefix"), [("a\n[rank7] \x1b[2J", "a [rank7]  [2J"), ("${rank}: \n", "${rank}: "), (" a", " a")]
)
def test_in_a_pod_the_template_of_a_prefix_is_one_line_without_control_characters(template: str, prefix: str) -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    made = from_pod(namespace, {**POD, PREFIX_TEMPLATE: template}, LOGS).output
    assert made.prefix_template is not None
    assert made.prefix_template.isprintable()
    assert made.prefix_template == prefix


def test_in_a_pod_the_agent_gets_the_bootstrap_of_the_operator() -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    bootstrap = bootstrap_of(SpecRecord(min=1, max=1, desired=1, keep_alive_s=9.0), 7)
    with_bootstrap = {**POD, constants.ENV_SPEC: encode_bootstrap(bootstrap)}
    assert from_pod(namespace, with_bootstrap, LOGS).identity.bootstrap == bootstrap
    assert from_pod(namespace, POD, LOGS).identity.bootstrap is None


@pytest.mark.parametrize(("text", "seconds"), [(None, 600.0), ("", 600.0), ("5", 5.0), ("1.5", 1.5)])
def test_in_a_pod_the_join_timeout_is_that_of_the_manifest(text: str | None, seconds: float) -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    variables = {} if text is None else {constants.ENV_JOIN_TIMEOUT: text}
    assert from_pod(namespace, {**POD, **variables}, LOGS).join_timeout_s == seconds


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_in_a_pod_an_invalid_join_timeout_is_refused(text: str) -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    with pytest.raises(UsageError, match="must be a number of seconds above 0"):
        from_pod(namespace, {**POD, constants.ENV_JOIN_TIMEOUT: text}, LOGS)


def test_in_a_pod_an_invalid_bootstrap_is_logged_and_the_spec_is_read_from_etcd(
    caplog: pytest.LogCaptureFixture,
) -> None:
    namespace = build_parser({}).parse_args(["--pod", "train.py"])
    assert from_pod(namespace, {**POD, constants.ENV_SPEC: "7 6.0 2 what"}, LOGS).identity.bootstrap is None
    assert "ignored ELASTICJOB_SPEC, the agent reads the spec from etcd instead: " in caplog.text
